//! Blobs: written ahead, named by their bytes, kept while someone refers to them.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{BlobId, UploadId},
    storage::{BlobPart, BlobQuery, CHUNK, Chunk, NewSession, Seal, Store, Write},
};

use super::scene::{IntoWrite, Scene, creation, session_id};

/// Bytes with their name, and how they are cut.
struct Bytes {
    blob: BlobId,
    chunks: Vec<Vec<u8>>,
}

impl Bytes {
    fn small() -> Self {
        let blob = "6a54b267f607ae58966983be5fb0978442daa04e714d1002661e21f236a90c56";
        Self { blob: blob.parse().unwrap(), chunks: vec![b"hello, pump".to_vec()] }
    }

    /// Two chunks and a bit.
    fn large() -> Self {
        let blob = "7a96b0bc0fe51b9f4f9cc59d0db60de6ff29547abe00538849a16b3221dab53b";
        let chunks = vec![vec![b'a'; CHUNK], vec![b'b'; CHUNK], b"tail".to_vec()];
        Self { blob: blob.parse().unwrap(), chunks }
    }

    fn size(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }

    fn chunk(&self, n: u16, number: u32, time: i64) -> Chunk {
        let bytes = self.chunks[number as usize].clone();
        Chunk { upload: upload(n), number, bytes, time: Timestamp(time) }
    }

    fn seal(&self, n: u16, time: i64) -> Seal {
        Seal { upload: upload(n), blob: self.blob, size: self.size(), time: Timestamp(time) }
    }

    /// Writes and seals all of it, as the `n`th upload.
    async fn put(&self, store: &Store, n: u16, time: i64) {
        for number in (0..).take(self.chunks.len()) {
            store.put_chunk(self.chunk(n, number, time)).await.unwrap();
        }
        store.seal(self.seal(n, time)).await.unwrap();
    }

    async fn read(&self, store: &Store, from: u64, limit: usize) -> Option<BlobPart> {
        store.blob(BlobQuery { blob: self.blob, from, limit }).await.unwrap()
    }

    async fn read_all(&self, store: &Store) -> Option<BlobPart> {
        self.read(store, 0, usize::MAX).await
    }

    fn part(&self, bytes: &[u8]) -> Option<BlobPart> {
        Some(BlobPart { size: self.size(), bytes: bytes.to_vec() })
    }

    fn whole(&self) -> Option<BlobPart> {
        self.part(&self.chunks.concat())
    }
}

fn upload(n: u16) -> UploadId {
    session_id(n).to_string().parse().unwrap()
}

/// What was sealed can be read, and what was not is not there.
pub async fn a_blob_is_there_when_it_is_sealed(store: &Store) {
    let small = Bytes::small();
    assert_eq!(small.read_all(store).await, None);
    store.put_chunk(small.chunk(1, 0, 0)).await.unwrap();
    assert_eq!(small.read_all(store).await, None);
    store.seal(small.seal(1, 0)).await.unwrap();
    assert_eq!(small.read_all(store).await, small.whole());
}

/// Chunks have numbers: the order in which they arrive, and how often, means nothing.
pub async fn chunks_may_come_in_any_order(store: &Store) {
    let large = Bytes::large();
    for number in [2, 0, 2, 1] {
        store.put_chunk(large.chunk(1, number, 0)).await.unwrap();
    }
    let other = Chunk { bytes: vec![b'x'; CHUNK], ..large.chunk(1, 1, 0) };
    store.put_chunk(other).await.expect("a piece that is there is left as it is");
    store.seal(large.seal(1, 0)).await.unwrap();
    assert!(large.read_all(store).await == large.whole(), "the bytes are in the order of their numbers");
}

/// A range may begin and end anywhere, and beyond the end there are no bytes.
pub async fn a_range_is_cut_from_the_whole(store: &Store) {
    let large = Bytes::large();
    large.put(store, 1, 0).await;
    let (chunk, size) = (CHUNK as u64, large.size());
    for (from, limit, bytes) in [
        (0, 2, "aa"),
        (chunk - 2, 4, "aabb"),
        (chunk, 1, "b"),
        (2 * chunk - 1, 99, "btail"),
        (size - 1, 1, "l"),
        (size, 5, ""),
        (u64::MAX, 5, ""),
        (7, 0, ""),
    ] {
        assert_eq!(large.read(store, from, limit).await, large.part(bytes.as_bytes()), "from {from}");
    }
    let across = [b"a".as_slice(), &vec![b'b'; CHUNK], b"t"].concat();
    assert!(
        large.read(store, chunk - 1, CHUNK + 2).await == large.part(&across),
        "a range over three chunks"
    );
}

/// A seal whose answer was lost is sent again.
pub async fn sealing_twice_changes_nothing(store: &Store) {
    let small = Bytes::small();
    small.put(store, 1, 0).await;
    store.seal(small.seal(1, 0)).await.unwrap();
    assert_eq!(small.read_all(store).await, small.whole());
}

/// An upload without a piece of it is no blob, and can be finished.
pub async fn a_missing_chunk_is_refused(store: &Store) {
    let large = Bytes::large();
    let error = store.seal(large.seal(1, 0)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    for (number, missing) in [(2, "the first"), (0, "the second")] {
        store.put_chunk(large.chunk(1, number, 0)).await.unwrap();
        let error = store.seal(large.seal(1, 0)).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Invalid, "{missing} is missing: {error}");
    }
    assert_eq!(large.read_all(store).await, None);
    store.put_chunk(large.chunk(1, 1, 0)).await.unwrap();
    store.seal(large.seal(1, 0)).await.unwrap();
    assert!(large.read_all(store).await == large.whole(), "it was finished");
}

/// Chunks are of one size but for the last, so that a range is found by its numbers.
pub async fn a_short_chunk_in_the_middle_is_refused(store: &Store) {
    let (small, large) = (Bytes::small(), Bytes::large());
    store.put_chunk(small.chunk(1, 0, 0)).await.unwrap();
    store.put_chunk(large.chunk(1, 1, 0)).await.unwrap();
    let seal = Seal { size: small.size() + CHUNK as u64, ..large.seal(1, 0) };
    let error = store.seal(seal).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(large.read_all(store).await, None);
}

/// The bytes must be as many as the writer says.
pub async fn another_size_is_refused(store: &Store) {
    let small = Bytes::small();
    store.put_chunk(small.chunk(1, 0, 0)).await.unwrap();
    for size in [small.size() - 1, small.size() + 1] {
        let error = store.seal(Seal { size, ..small.seal(1, 0) }).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    }
    assert_eq!(small.read_all(store).await, None);
}

/// A chunk has bytes, and not too many.
pub async fn a_chunk_has_its_limits(store: &Store) {
    let chunk = Bytes::small().chunk(1, 0, 0);
    let error = store.put_chunk(Chunk { bytes: vec![0; CHUNK + 1], ..chunk.clone() }).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::TooLarge, "{error}");
    let error = store.put_chunk(Chunk { bytes: vec![], ..chunk }).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    let error = store.seal(Bytes::small().seal(1, 0)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound, "neither was written: {error}");
}

/// Two uploads of the same bytes are one blob, for every session that refers to it.
pub async fn the_same_bytes_are_kept_once(store: &Store) {
    let small = Bytes::small();
    small.put(store, 1, 0).await;
    small.put(store, 2, 0).await;
    for n in [1, 2] {
        let mut scene = Scene::create(store, n, NewSession::default()).await;
        scene.commit(vec![Write::Blob(small.blob)]).await.unwrap();
        scene.commit(vec![Write::Blob(small.blob)]).await.expect("referring to it again changes nothing");
    }
    assert_eq!(store.sweep(Timestamp(9)).await.unwrap().blobs, 0, "nothing of the second upload is left");
    assert_eq!(small.read_all(store).await, small.whole());
}

/// What a session refers to is there: bytes first, then the batch.
pub async fn a_batch_refers_to_no_unknown_blob(store: &Store) {
    let mut scene = Scene::new(store).await;
    let small = Bytes::small();
    store.put_chunk(small.chunk(1, 0, 0)).await.unwrap();
    let entry = scene.entry("see the picture").into_write();
    let batch = scene.batch(vec![entry, Write::Blob(small.blob)]);
    let error = scene.send(batch.clone()).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(&small.blob.to_string()), "{error}");
    assert_eq!(scene.texts().await, [""; 0]);
    let mut create = creation(2, NewSession::default());
    create.first.writes = create.first.writes.iter().cloned().chain([Write::Blob(small.blob)]).collect();
    let error = store.create(create).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(store.session(session_id(2)).await.unwrap(), None);
    store.seal(small.seal(1, 0)).await.unwrap();
    scene.send(batch).await.expect("the same batch, once the blob is there");
}

/// A session's blobs are listed once each, however often it refers to them; a session without any has none.
pub async fn what_a_session_refers_to_is_listed(store: &Store) {
    let (small, large) = (Bytes::small(), Bytes::large());
    small.put(store, 1, 0).await;
    large.put(store, 2, 0).await;
    let mut scene = Scene::new(store).await;
    let other = Scene::create(store, 2, NewSession::default()).await;
    assert_eq!(store.blobs(scene.id()).await.unwrap(), []);
    scene.commit(vec![Write::Blob(large.blob)]).await.unwrap();
    scene.commit(vec![Write::Blob(small.blob), Write::Blob(large.blob)]).await.unwrap();
    let mut listed = store.blobs(scene.id()).await.unwrap();
    listed.sort();
    assert_eq!(listed, [small.blob, large.blob]);
    assert_eq!(store.blobs(other.id()).await.unwrap(), []);
    assert_eq!(*store.blobs(session_id(9)).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// A sweep removes what is old and what nobody refers to, and nothing else.
pub async fn a_sweep_keeps_what_is_referred_to(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (small, large) = (Bytes::small(), Bytes::large());
    small.put(store, 1, 5).await;
    large.put(store, 2, 5).await;
    let said = scene.entry("see the picture").into_write();
    scene.commit(vec![said, Write::Blob(small.blob)]).await.unwrap();
    assert_eq!(store.sweep(Timestamp(5)).await.unwrap().blobs, 0, "it is not older than that");
    assert_eq!(store.sweep(Timestamp(6)).await.unwrap().blobs, 1);
    assert_eq!(small.read_all(store).await, small.whole());
    assert_eq!(large.read_all(store).await, None);
    let error = scene.commit(vec![Write::Blob(large.blob)]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    large.put(store, 3, 7).await;
    assert!(large.read_all(store).await == large.whole(), "it can be written again");
}

/// Who seals bytes that are there already has as long to refer to them as who wrote them.
pub async fn a_blob_that_is_sealed_again_is_young_again(store: &Store) {
    let small = Bytes::small();
    small.put(store, 1, 5).await;
    small.put(store, 2, 50).await;
    assert_eq!(store.sweep(Timestamp(50)).await.unwrap().blobs, 0);
    assert_eq!(small.read_all(store).await, small.whole());
    assert_eq!(store.sweep(Timestamp(51)).await.unwrap().blobs, 1);
}

/// Uploads that were never sealed go when they are old.
pub async fn a_sweep_drops_uploads_that_nobody_finished(store: &Store) {
    let (small, large) = (Bytes::small(), Bytes::large());
    store.put_chunk(small.chunk(1, 0, 5)).await.unwrap();
    store.put_chunk(large.chunk(2, 0, 50)).await.unwrap();
    assert_eq!(store.sweep(Timestamp(50)).await.unwrap().blobs, 1);
    let error = store.seal(small.seal(1, 50)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    for number in [1, 2] {
        store.put_chunk(large.chunk(2, number, 60)).await.unwrap();
    }
    store.seal(large.seal(2, 60)).await.expect("the younger one is whole");
}

/// A deleted session refers to nothing any more; what others refer to stays.
pub async fn blobs_go_with_the_last_session_that_refers_to_them(store: &Store) {
    let (small, large) = (Bytes::small(), Bytes::large());
    small.put(store, 1, 5).await;
    large.put(store, 2, 5).await;
    let mut one = Scene::new(store).await;
    let mut two = Scene::create(store, 2, NewSession::default()).await;
    one.commit(vec![Write::Blob(small.blob), Write::Blob(large.blob)]).await.unwrap();
    two.commit(vec![Write::Blob(small.blob)]).await.unwrap();
    store.delete(one.id(), one.lease.owner, one.lease.epoch).await.unwrap();
    assert_eq!(store.sweep(Timestamp(6)).await.unwrap().blobs, 1);
    assert_eq!((small.read_all(store).await, large.read_all(store).await), (small.whole(), None));
}
