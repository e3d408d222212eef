use super::*;

// Whoever configures an agent names its model: without a bound, names alone could fill the memory.
#[test]
fn models_past_the_bound_are_counted_together() {
    let meter = Meter::default();
    for number in 0..MODELS_MAX + 40 {
        let model = ModelRef { provider: "chat".into(), model: format!("m{number}"), endpoint: None };
        meter.asked(&model, (Duration::from_millis(1), None), None);
    }
    let models = meter.read().models;
    assert_eq!((models.len(), models[OTHER].request_ms[&None].count), (MODELS_MAX + 1, 40));
}
