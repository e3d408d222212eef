//! `everturn usage [ID]`: what a session's requests cost, by model, conversation and turn.

use std::collections::BTreeMap;

use everturn::{
    id::SessionId,
    model::ModelRef,
    usage::{Total, UsageRow},
};
use serde_json::json;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::line,
    host::{Host, Missing},
    screen::{Screen, cost},
};

pub(crate) async fn run(place: &Place, id: Option<SessionId>, json: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let id = match id {
        Some(id) => id,
        None => host.last_used().await?,
    };
    let reader = host.harness.reader(id).await?;
    let rows = reader.store().usage(id).await?;
    let mut screen = Screen::new();
    for (name, group) in groups(&rows) {
        let sum = Sum::of(&host, &group);
        match json {
            true => line(&sum.fields(&name)).map_err(|fault| Failure::output(&fault))?,
            false => screen.text(&everturn::clean::line(&sum.shown(&name))),
        }
    }
    screen.delivered()?;
    Ok(Exit::Answered)
}

/// What rows are summed by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Model(String),
    Conversation(u64),
    Turn(u64),
    Total,
}

/// The rows of each model, each conversation and each turn, and all of them.
fn groups(rows: &[UsageRow]) -> BTreeMap<Name, Vec<&UsageRow>> {
    let mut groups = BTreeMap::from([(Name::Total, Vec::new())]);
    for row in rows {
        let names = [
            Name::Model(row.model.clone()),
            Name::Conversation(row.conversation.0),
            Name::Turn(row.turn.0),
            Name::Total,
        ];
        names.into_iter().for_each(|name| groups.entry(name).or_default().push(row));
    }
    groups
}

/// What some requests came to.
struct Sum {
    total: Total,
    /// In nano-dollars; none where one of them is not known.
    cost: Option<u64>,
}

impl Sum {
    fn of(host: &Host, rows: &[&UsageRow]) -> Self {
        let price = |row: &UsageRow| {
            let model: ModelRef = row.model.parse().ok()?;
            let price = host.models.resolve(&model).ok()?.abilities(&model.model).price?;
            price.of(row.usage.as_ref()?)
        };
        let cost = rows.iter().map(|row| price(row)).sum();
        Self { total: rows.iter().copied().collect(), cost }
    }

    fn shown(&self, name: &Name) -> String {
        let name = match name {
            Name::Model(model) => format!("model {model}"),
            Name::Conversation(id) => format!("conversation {id}"),
            Name::Turn(id) => format!("turn {id}"),
            Name::Total => "total".into(),
        };
        let cached = self.total.usage.cached.map_or(String::new(), |cached| format!(" ({cached} cached)"));
        let price = match self.cost {
            #[expect(clippy::cast_precision_loss, reason = "shown to a millionth of a dollar")]
            Some(nano) => format!("{:.6} $", nano as f64 / 1e9),
            None => "unknown".into(),
        };
        format!("{name}: {}{cached}, cost {price}", cost(&self.total))
    }

    fn fields(&self, name: &Name) -> serde_json::Value {
        let (of, which) = match name {
            Name::Model(model) => ("model", json!(model)),
            Name::Conversation(id) => ("conversation", json!(id)),
            Name::Turn(id) => ("turn", json!(id)),
            Name::Total => ("total", json!(null)),
        };
        json!({
            "of": of, "which": which, "requests": self.total.requests, "unknown": self.total.unknown,
            "usage": self.total.usage, "cost_nano_usd": self.cost,
        })
    }
}
