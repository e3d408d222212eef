use super::*;
use everturn_core::message::Usage;

const INTERVAL: Interval = Interval { since: 1, now: 2 };

fn none() -> Metrics {
    Metrics {
        open_sessions: 0,
        active_turns: 0,
        queued: 0,
        open_approvals: 0,
        turns: BTreeMap::new(),
        steps: 0,
        turn_ms: Counted::default(),
        requests: BTreeMap::new(),
        retries: 0,
        input_tokens: 0,
        output_tokens: 0,
        cached_tokens: 0,
        cost: 0,
        models: BTreeMap::new(),
        calls: BTreeMap::new(),
        compactions: 0,
        commit_ms: Counted::default(),
        line_ms: Counted::default(),
    }
}

fn metrics(counted: &Metrics) -> BTreeMap<String, Metric> {
    let request = request(&[], counted, INTERVAL);
    let scopes = request.resource_metrics.into_iter().flat_map(|one| one.scope_metrics);
    scopes.flat_map(|scope| scope.metrics).map(|metric| (metric.name.clone(), metric)).collect()
}

#[test]
fn a_histogram_keeps_its_buckets_and_what_took_longer() {
    let mut commit_ms = Counted { count: 4, sum_ms: 400_007, ..Counted::default() };
    (commit_ms.buckets[0], commit_ms.buckets[2]) = (2, 1);
    let commit = metrics(&Metrics { commit_ms, ..none() }).remove("everturn.commit.duration").unwrap();
    let Some(Data::Histogram(histogram)) = commit.data else { panic!("a histogram") };
    let point = &histogram.data_points[0];
    assert_eq!((commit.unit.as_str(), point.count, point.sum), ("s", 4, Some(400.007)));
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
    assert_eq!(point.explicit_bounds[..3], [0.001, 0.002, 0.005]);
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    let counted: Vec<_> = point.bucket_counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
    assert_eq!(counted, [(0, &2), (2, &1), (Counted::BOUNDS.len(), &1)]);
}

#[test]
fn what_was_spent_is_in_dollars() {
    let cost = metrics(&Metrics { cost: 1_500_000_000, ..none() }).remove("everturn.cost").unwrap();
    let Some(Data::Sum(sum)) = cost.data else { panic!("a sum") };
    assert_eq!((sum.data_points[0].value, sum.is_monotonic), (Some(Value::AsDouble(1.5)), true));
}

#[test]
fn a_model_s_endpoint_is_told_as_host_and_port_only() {
    let usage = Usage { cached: Some(3), ..Usage::default() };
    let model = ModelMetrics { usage, ..ModelMetrics::default() };
    let name = "chat/qwen@https://models.example/v1?key=secret";
    let counted = metrics(&Metrics { models: [(name.to_owned(), model)].into(), ..none() });
    assert!(!format!("{counted:?}").contains("secret"));
    let Some(Data::Sum(sum)) = &counted[names::CACHE_READ].data else { panic!("a sum") };
    let expected = [
        text(names::OPERATION, "chat"),
        text(names::PROVIDER, "chat"),
        text(names::MODEL, "qwen"),
        text(names::SERVER, "models.example"),
        attribute(names::PORT, any_value::Value::IntValue(443)),
        text(names::MODALITY, "unknown"),
    ];
    assert_eq!(sum.data_points[0].attributes, expected);
    // What no provider counted is not there, rather than 0.
    assert!(!counted.contains_key(names::INPUT));
}
