//! The memory store keeps the promises of the storage port, and is what other backends are measured by.

mod memory {
    use everturn_core::{memory::Memory, storage::Store};

    everturn_testkit::store_suite!(async { Store::new(Memory::new()) });
}
