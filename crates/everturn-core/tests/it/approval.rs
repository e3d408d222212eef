//! Approvals: which decisions fit which question.

use everturn_core::{
    approval::{Decision, Question},
    json::RawJson,
    policy::{Judged, Policy},
};

#[test]
fn a_decision_fits_the_question_that_it_answers_and_no_other() {
    let (tool, text) = ("pay".to_owned(), String::new);
    let call = Question::Call {
        tool: tool.clone(),
        arguments: RawJson::empty(),
        directory: None,
        acts: vec![],
        verdict: Policy::default().verdict(&Judged { tool: "pay", ..Judged::default() }),
        policy: text(),
        preview: None,
    };
    let unknown = Question::Unknown { tool, arguments: RawJson::empty() };
    let person = Question::Person { text: text(), choices: vec!["main".into()] };
    for (decision, fits) in [
        (Decision::Allow, [true, false, false]),
        (Decision::AllowForSession, [true, false, false]),
        (Decision::Edit { arguments: RawJson::empty() }, [true, false, false]),
        (Decision::Deny { reason: text() }, [true, false, true]),
        (Decision::Happened { text: None }, [false, true, false]),
        (Decision::DidNotHappen, [false, true, false]),
        (Decision::Stop, [false, true, false]),
        (Decision::Answer { text: text() }, [false, false, true]),
    ] {
        assert_eq!(
            [&call, &unknown, &person].map(|question| question.takes(&decision)),
            fits,
            "{decision:?}"
        );
    }
}
