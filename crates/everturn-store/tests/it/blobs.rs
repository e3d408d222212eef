//! Blobs in the file: ranges, chunks that changed, uploads that end.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{BlobId, UploadId},
    storage::{BlobQuery, CHUNK, Chunk, Seal, Store, Swept},
};
use everturn_testkit::block_on;

use crate::files::Temporary;

pub(crate) fn upload(n: u8) -> UploadId {
    format!("0198c0de-0000-7000-8000-0000000001{n:02x}").parse().unwrap()
}

/// Bytes of which no two chunks are the same.
pub(crate) fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at / 7 + at / CHUNK) % 251).unwrap()).collect()
}

pub(crate) async fn write(store: &Store, upload: UploadId, blob: BlobId, bytes: &[u8]) {
    for (number, bytes) in (0..).zip(bytes.chunks(CHUNK)) {
        store.put_chunk(Chunk { upload, number, bytes: bytes.to_vec(), time: Timestamp(1) }).await.unwrap();
    }
    store.seal(Seal { upload, blob, size: bytes.len() as u64, time: Timestamp(1) }).await.unwrap();
}

#[test]
fn a_blob_is_read_byte_for_byte_by_ranges() {
    let (file, blob, bytes) = (Temporary::new(), BlobId([3; 32]), bytes(3_000_000));
    block_on(async {
        let store = file.open().await;
        write(&store, upload(1), blob, &bytes).await;
        drop(store);
        let store = file.open().await;
        for (from, limit) in [
            (0, usize::MAX),
            (0, 1),
            (CHUNK - 1, 2),
            (CHUNK, CHUNK),
            (CHUNK + 5, 3 * CHUNK),
            (2_999_999, 5),
            (3_000_000, 5),
            (9_000_000, 5),
            (17, 0),
        ] {
            let part = store.blob(BlobQuery { blob, from: from as u64, limit }).await.unwrap().unwrap();
            let until = from.saturating_add(limit).min(bytes.len());
            assert_eq!(part.size, 3_000_000);
            assert!(
                part.bytes == bytes[from.min(bytes.len())..until.max(from.min(bytes.len()))],
                "{from} {limit}"
            );
        }
    });
}

#[test]
fn a_flipped_byte_of_a_chunk_is_named_and_the_other_chunks_are_read() {
    let (file, blob, bytes) = (Temporary::new(), BlobId([3; 32]), bytes(3 * CHUNK));
    block_on(async {
        let store = file.open().await;
        write(&store, upload(1), blob, &bytes).await;
        let db = rusqlite::Connection::open(file.path()).unwrap();
        let flip = "UPDATE chunk SET bytes = cast(x'ff' || substr(bytes, 2) AS BLOB) WHERE number = 1";
        assert_eq!(db.execute(flip, []).unwrap(), 1);

        let all = BlobQuery { blob, from: 0, limit: usize::MAX };
        let error = store.blob(all).await.unwrap_err();
        let ErrorKind::Corrupt { where_, .. } = error.kind() else { panic!("{error}") };
        assert_eq!(where_, "table chunk, bid 1, number 1");
        let first = store.blob(BlobQuery { limit: CHUNK, ..all }).await.unwrap().unwrap();
        assert!(first.bytes == bytes[..CHUNK]);
        let last = store.blob(BlobQuery { from: 2 * CHUNK as u64, ..all }).await.unwrap().unwrap();
        assert!(last.bytes == bytes[2 * CHUNK..]);
    });
}

#[test]
fn an_upload_of_bytes_that_are_there_leaves_nothing() {
    let (file, blob, bytes) = (Temporary::new(), BlobId([3; 32]), bytes(20 * CHUNK));
    block_on(async {
        let store = file.open().await;
        write(&store, upload(1), blob, &bytes).await;
        write(&store, upload(2), blob, &bytes).await;
        let db = rusqlite::Connection::open(file.path()).unwrap();
        let count = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM blob"), 1);
        assert_eq!(count("SELECT count(*) FROM chunk"), 20);

        assert_eq!(store.sweep(Timestamp(2)).await.unwrap(), Swept { blobs: 1, sessions: 0 });
        assert_eq!(count("SELECT count(*) FROM blob") + count("SELECT count(*) FROM chunk"), 0);
    });
}
