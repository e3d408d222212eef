//! The promises of the storage port, on one open store and on one that is opened again after every commit.

mod sqlite {
    use crate::files::{Reopen, Temporary};

    everturn_testkit::store_suite!(async { Temporary::new().into_store(Reopen::Never).await });
}

mod sqlite_reopened_after_every_commit {
    use crate::files::{Reopen, Temporary};

    everturn_testkit::store_suite!(async { Temporary::new().into_store(Reopen::AfterEveryCommit).await });
}
