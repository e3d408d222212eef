//! A cursor is read or refused, and what was read prints as what is read as the same.
//!
//! Input: text, as someone who comes back to a watch might send it.

#![no_main]

use everturn_core::cursor::Cursor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match text.parse::<Cursor>() {
        Ok(cursor) => {
            assert_eq!(cursor.to_string().parse::<Cursor>().ok(), Some(cursor), "{text:?}");
            let json = serde_json::to_string(&cursor).expect("a cursor has a JSON form");
            assert_eq!(serde_json::from_str::<Cursor>(&json).ok(), Some(cursor), "{json}");
        }
        Err(error) => {
            assert!(error.to_string().contains(&format!("{text:?}")), "it quotes the text: {error}");
        }
    }
    if let Ok(cursor) = serde_json::from_str::<Cursor>(text) {
        assert_eq!(cursor.to_string().parse::<Cursor>().ok(), Some(cursor), "{text}");
    }
});
