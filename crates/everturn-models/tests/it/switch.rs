//! Whatever a provider said, any provider can be asked to go on.

use std::{fs, path::Path};

use everturn_core::{
    message::{Assistant, CallId, CallResult, End, Message, Outcome, Part, Stop},
    model::{Delta, Fault, Request},
    response::Response,
};
use everturn_models::{anthropic, chat, gemini, openai, sse::Limits};
use everturn_testkit::strict;

/// One provider: how it reads, how it writes, and who refuses what it must not be sent.
struct Provider {
    name: &'static str,
    fixtures: &'static str,
    decode: fn(&[u8]) -> Vec<Result<Delta, Fault>>,
    encode: fn(&Request) -> Vec<u8>,
    check: fn(&[u8]) -> Result<(), String>,
}

macro_rules! decode {
    ($dialect:ident) => {
        |body| {
            let mut decoder = $dialect::Decoder::new(Limits::default());
            decoder.push(body);
            decoder.finish();
            std::iter::from_fn(|| decoder.pop()).collect()
        }
    };
}

const PROVIDERS: [Provider; 4] = [
    Provider {
        name: anthropic::PROVIDER,
        fixtures: "anthropic",
        decode: decode!(anthropic),
        encode: |request| anthropic::encode(request, 100),
        check: strict::anthropic::check,
    },
    Provider {
        name: chat::PROVIDER,
        fixtures: "chat",
        decode: decode!(chat),
        encode: |request| chat::encode(request, chat::Quirks::default()),
        check: strict::chat::check,
    },
    Provider {
        name: gemini::PROVIDER,
        fixtures: "gemini",
        decode: decode!(gemini),
        encode: gemini::encode,
        check: |body| strict::gemini::check(body, false),
    },
    Provider {
        name: openai::PROVIDER,
        fixtures: "responses",
        decode: decode!(openai),
        encode: |request| openai::encode(request, openai::Responses { is_openai: true }),
        check: strict::openai::check,
    },
];

const MODEL: &str = "m";

/// The answers of a provider's fixtures that ended well, with the names of the files.
fn answers(provider: &Provider) -> Vec<(String, Assistant)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams").join(provider.fixtures);
    let mut answers = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sse") {
            let deltas = (provider.decode)(&fs::read(&path).unwrap());
            answers.extend(answer(provider, deltas).map(|answer| (path.display().to_string(), answer)));
        }
    }
    answers
}

fn answer(provider: &Provider, deltas: Vec<Result<Delta, Fault>>) -> Option<Assistant> {
    let mut response = Response::default();
    for delta in deltas {
        response.push(delta.ok()?);
    }
    let mut ids = (1..).map(|number| CallId(format!("c{number}")));
    Some(response.into_message(provider.name, MODEL, End::Complete, || ids.next().unwrap()))
}

/// A history with this answer in the middle, twice, so that its ids come again.
fn history(answer: &Assistant) -> Vec<Message> {
    let mut messages = vec![Message::system("Be brief."), Message::user("weigh it")];
    for round in 0..2 {
        let mut answer = answer.clone();
        for part in &mut answer.parts {
            if let Part::Call(call) = part {
                call.id = CallId(format!("{}{}", call.id, ["", "again"][round]));
            }
        }
        let results: Vec<_> = answer
            .calls()
            .map(|call| Message::Result(CallResult::new(call.id.clone(), Outcome::Ok, "3 g")))
            .collect();
        messages.push(Message::Assistant(answer));
        messages.extend(results);
        messages.push(Message::user("and now?"));
    }
    messages
}

#[test]
fn any_provider_goes_on_with_what_any_other_said() {
    let mut histories = 0;
    for from in &PROVIDERS {
        for (file, answer) in answers(from) {
            for to in &PROVIDERS {
                let body = (to.encode)(&Request::new(MODEL, history(&answer)));
                let text = String::from_utf8_lossy(&body);
                assert_eq!((to.check)(&body), Ok(()), "{file} sent to {}: {text}", to.name);
                histories += 1;
            }
        }
    }
    println!("{histories} histories");
    assert!(histories > 350, "{histories} histories");
}

#[test]
fn what_is_signed_goes_back_in_place_to_its_model_and_to_no_other() {
    let kept = |answer: &Assistant| -> Vec<String> {
        let items = answer.parts.iter().filter_map(|part| match part {
            Part::Opaque(item) => Some(item.get().to_owned()),
            _ => None,
        });
        items.collect()
    };
    let mut items = 0;
    for from in &PROVIDERS {
        for (file, answer) in answers(from).iter().filter(|(_, answer)| answer.stop != Some(Stop::Length)) {
            let own = text(from, MODEL, answer);
            let mut rest = own.as_str();
            for item in kept(answer).iter().filter(|item| !item.starts_with(r#"{"phase""#)) {
                rest = rest.split_once(&**item).unwrap_or_else(|| panic!("{file}: {item} in {rest}")).1;
                items += 1;
                for to in &PROVIDERS {
                    assert!(
                        !text(to, "other", answer).contains(&**item),
                        "{file} sent to another of {}",
                        to.name
                    );
                }
            }
        }
    }
    assert!(items > 10, "{items} items");
}

fn text(provider: &Provider, model: &str, answer: &Assistant) -> String {
    String::from_utf8((provider.encode)(&Request::new(model, history(answer)))).unwrap()
}

#[test]
fn each_request_begins_with_the_bytes_of_the_one_before_it_at_every_provider() {
    for from in &PROVIDERS {
        let turns: Vec<_> = answers(from).into_iter().flat_map(|(_, answer)| history(&answer)).collect();
        let turns: Vec<_> =
            turns.into_iter().filter(|message| !matches!(message, Message::System(_))).collect();
        for to in &PROVIDERS {
            let ends = turns.iter().enumerate().filter(|(_, message)| matches!(message, Message::User(_)));
            let bodies: Vec<_> = ends
                .map(|(at, _)| {
                    let body = (to.encode)(&Request::new(MODEL, turns[..=at].to_vec()));
                    // Marks are no part of what is compared, neither here nor there.
                    String::from_utf8(body).unwrap().replace(r#","cache_control":{"type":"ephemeral"}"#, "")
                })
                .collect();
            for (shorter, longer) in bodies.iter().zip(&bodies[1..]) {
                let shorter = &shorter[..shorter.len() - "]}".len()];
                assert!(longer.starts_with(shorter), "{} sent to {}", from.name, to.name);
            }
        }
    }
}
