//! The memory store keeps the promises of the storage port, bare and behind everything that can be put around a store.

mod around;
mod stranger;

use everturn_core::{memory::Memory, storage::Store};

fn memory() -> Store {
    Store::new(Memory::new())
}

mod bare {
    everturn_testkit::store_suite!(async { crate::memory() });
}

/// Every first call is refused, and tried once more.
mod faulty {
    use everturn_testkit::{faulty::Faults, retrying};

    everturn_testkit::store_suite!(async {
        retrying::around(Faults::when(|_, number| number % 2 == 1).around(crate::memory()))
    });
}

mod slow {
    everturn_testkit::store_suite!(async { everturn_testkit::slow::around(crate::memory(), 7) });
}

mod counting {
    use everturn_testkit::counting::Counts;

    everturn_testkit::store_suite!(async { Counts::default().around(crate::memory()) });
}

/// Every first answer to a commit is lost, and the batch is sent again.
mod late {
    use everturn_testkit::{
        late::{Fate, Losses},
        resending,
    };

    everturn_testkit::store_suite!(async {
        let losses = Losses::when(|number| (number % 2 == 1).then_some(Fate::Arrived));
        resending::around(losses.around(crate::memory()))
    });
}
