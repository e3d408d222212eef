use super::*;

fn from(variables: &[(&str, &str)]) -> Result<Options> {
    let read =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Ok(Options::from_variables(read)?.expect("an endpoint is named"))
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example:4318/base/");

#[test]
fn the_variables_of_opentelemetry_are_read() {
    let options = from(&[
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc, x-team = north,"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=one"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
        ("OTEL_SERVICE_NAME", "shop"),
    ])
    .unwrap();
    let headers: Vec<_> =
        options.headers.iter().map(|(name, value)| (&**name, value.expose_secret())).collect();
    assert_eq!(headers, [("authorization", "Basic abc"), ("x-team", "north")]);
    assert_eq!(options.attributes, [("service.instance.id".to_owned(), "one".to_owned())]);
    assert_eq!((options.timeout, options.every), (Duration::from_millis(250), Duration::from_secs(5)));
    assert_eq!(options.service, "shop");
    assert_eq!(options.url("v1/traces").unwrap().as_str(), "https://collector.example:4318/base/v1/traces");
}

#[test]
fn what_cannot_be_read_is_named_and_a_secret_is_not() {
    let why = |variables: &[(&str, &str)]| from(variables).unwrap_err().to_string();
    let said = why(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,hunter2")]);
    assert_eq!(said, "read OTEL_EXPORTER_OTLP_HEADERS: pair 2 is not `name=value`");
    let said = why(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]);
    assert_eq!(said, r#"read OTEL_EXPORTER_OTLP_TIMEOUT: "soon" is no number of milliseconds"#);

    let headers = vec![("x-key".to_owned(), "hunter2\n".to_owned().into())];
    let said = Options { headers, ..Options::new("http://127.0.0.1") }.header_map().unwrap_err().to_string();
    assert!(said.contains("x-key") && !said.contains("hunter2"), "{said}");
}

#[test]
fn an_endpoint_is_plain_http_without_a_password() {
    for (endpoint, why) in [
        ("collector:4317", "neither http nor https"),
        ("4318", "relative URL"),
        ("http://me:hunter2@127.0.0.1", "use a header"),
    ] {
        let said = Options::new(endpoint).url("v1/traces").unwrap_err().to_string();
        assert!(said.contains(why) && !said.contains("hunter2"), "{endpoint}: {said}");
    }
}
