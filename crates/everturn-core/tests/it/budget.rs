//! Budgets: what is left, who waits, and accounts that hang below each other.

use std::collections::BTreeMap;

use everturn_core::{
    budget::{Account, Budget, Limit, OUTPUT_ASSUMED, Room, Spent, worst_case},
    id::TaskId,
    json::RawJson,
    limits::Limits,
    usage::{Price, Total, UsageRow},
};
use proptest::{collection::vec, prelude::*};

const ONE: TaskId = TaskId(5);
const OTHER: TaskId = TaskId(6);

fn tokens(output_tokens: u64) -> Spent {
    Spent { output_tokens, ..Spent::default() }
}

#[test]
fn a_limit_that_is_reached_is_named_and_only_others_are_waited_for() {
    let budget = Budget { steps: Some(2), output_tokens: Some(100), wall_ms: Some(50), ..Budget::default() };
    let spent = |spent| Account { spent, ..Account::default() };
    let request = Spent { steps: 1, ..tokens(60) };
    for (why, account, wanted, room) in [
        ("there is room", Account::default(), request, Room::Enough),
        ("all of it may be wanted", spent(tokens(40)), request, Room::Enough),
        ("but not more", spent(tokens(41)), request, Room::Exceeded(Limit::OutputTokens)),
        (
            "steps are counted too",
            spent(Spent { steps: 2, ..Spent::default() }),
            request,
            Room::Exceeded(Limit::Steps),
        ),
        (
            "what is not wanted is not in the way",
            spent(tokens(100)),
            Spent { calls: 1, ..Spent::default() },
            Room::Enough,
        ),
        (
            "but time is, once it is used up",
            spent(Spent { wall_ms: 50, ..Spent::default() }),
            request,
            Room::Exceeded(Limit::WallMs),
        ),
    ] {
        assert_eq!(budget.room(&account, &wanted, ONE), room, "{why}");
    }
    let mut account = Account::default();
    account.reserve(ONE, request);
    assert_eq!(budget.room(&account, &request, OTHER), Room::Wait, "another holds what is left");
    assert_eq!(
        budget.room(&account, &request, ONE),
        Room::Exceeded(Limit::OutputTokens),
        "nobody waits for himself"
    );
    assert_eq!(
        budget.room(&account, &tokens(101), OTHER),
        Room::Exceeded(Limit::OutputTokens),
        "no waiting helps"
    );
    assert_eq!(Budget::default().room(&account, &tokens(u64::MAX), OTHER), Room::Enough);
}

#[test]
fn a_child_gets_no_more_than_is_left_and_one_level_less() {
    let budget = Budget { steps: Some(10), cost: Some(100), depth: Some(1), ..Budget::default() };
    let mut account =
        Account { spent: Spent { steps: 3, cost: 120, ..Spent::default() }, ..Account::default() };
    account.reserve(ONE, Spent { steps: 1, ..Spent::default() });
    let asked = Budget { steps: Some(8), calls: Some(2), ..Budget::default() };
    let share = budget.share(&account, &asked).unwrap();
    assert_eq!(share, Budget { steps: Some(6), cost: Some(0), calls: Some(2), depth: Some(0), ..asked });
    assert_eq!(share.share(&Account::default(), &asked), Err(Limit::Depth));
    let unlimited = Budget::default();
    assert!(unlimited.is_unlimited());
    assert_eq!(unlimited.share(&account, &asked), Ok(asked));
}

#[test]
fn the_worst_case_takes_the_dearest_input_and_an_answer_of_full_length() {
    let mut price = Price {
        input: 3_000_000,
        output: 15_000_000,
        cached: Some(300_000),
        cache_written: Some(3_750_000),
        source: "a list".into(),
        date: "2026-08-22".into(),
    };
    let worst = worst_case(1_000, Some(10), Some(&price));
    assert_eq!(worst.cost, 1_000 * 3_750 + 10 * 15_000);
    price.cache_written = Some(1);
    assert_eq!(worst_case(1_000, Some(10), Some(&price)).cost, 1_000 * 3_000 + 10 * 15_000);
    assert_eq!(worst_case(1, None, None).output_tokens, OUTPUT_ASSUMED);
}

#[test]
fn what_nobody_knows_is_charged_at_what_was_reserved() {
    let mut account = Account::default();
    account.reserve(ONE, tokens(60));
    account.wait(OTHER);
    account.wait(OTHER);
    account.reserve(ONE, tokens(50));
    assert_eq!((account.spent, account.held()), (tokens(60), tokens(50)), "the first was cut off");
    assert_eq!(account.settle(ONE, None), [OTHER], "and it waits once");
    assert_eq!(account, Account { spent: tokens(110), ..Account::default() });
    assert!(account.settle(ONE, None).is_empty());
    assert_eq!(account.spent, tokens(110), "what holds nothing is charged nothing");
    account.wait(ONE);
    account.reserve(ONE, tokens(1));
    assert!(account.waiting.is_empty(), "who has room no longer waits");
}

#[test]
fn a_budget_and_an_account_are_short_json_and_come_back() {
    let budget = Budget { cost: Some(7), ..Budget::default() };
    assert_eq!(serde_json::to_string(&budget).unwrap(), r#"{"cost":7}"#);
    let mut account = Account::default();
    account.reserve(ONE, tokens(3));
    account.wait(OTHER);
    let json = RawJson::checked("the account", &account, &Limits::default()).unwrap();
    assert_eq!(json.get(), r#"{"spent":{},"reserved":{"5":{"output_tokens":3}},"waiting":[6]}"#);
    assert_eq!(json.read::<Account>().unwrap(), account);
    assert_eq!(RawJson::empty().read::<Account>().unwrap(), Account::default());
}

// Turns keep their total, and `verify` adds up their rows. What both were before there were prices must still agree.
#[test]
fn a_total_from_before_there_were_prices_reads_as_the_sum_of_its_rows() {
    let row = r#"{"conversation":1,"turn":5,"step":1,"attempt":1,"model":"demo","end":"complete","usage":{"input":3},"time":0}"#;
    let row: UsageRow = RawJson::parse(row).unwrap().read().unwrap();
    let total: Total = RawJson::parse(r#"{"requests":1,"usage":{"input":3}}"#).unwrap().read().unwrap();
    assert_eq!([row].iter().collect::<Total>(), total);
    assert_eq!((total.cost, total.priced), (None, 0));
}

/// A tree of accounts: each task spends from its own and from all above it.
struct Tree {
    budgets: Vec<Budget>,
    accounts: Vec<Account>,
    parents: Vec<Option<usize>>,
    /// What the requests that are out may use, by task.
    out: BTreeMap<TaskId, Spent>,
    /// How much more was used than had been reserved, by account.
    beyond: Vec<Spent>,
    /// What each account's own tasks were charged.
    own: Vec<Spent>,
}

#[derive(Clone, Debug)]
enum Move {
    /// A task asks for room, and sends its request where there is.
    Send { task: usize, worst: Spent },
    /// A request ends, and its provider says what it used: so much more or less than the worst case.
    Answer { task: usize, used: Spent },
    /// The process dies; the next owner settles all requests that were out as unknown.
    Crash,
}

const TASKS: usize = 9;

fn spent() -> impl Strategy<Value = Spent> {
    (0..2u64, 0..40u64, 0..40u64, 0..40u64, 0..2u64, 0..2u64).prop_map(
        |(steps, input_tokens, output_tokens, cost, calls, children)| Spent {
            steps,
            input_tokens,
            output_tokens,
            cost,
            calls,
            children,
            ..Spent::default()
        },
    )
}

fn budget() -> impl Strategy<Value = Budget> {
    let limit = || proptest::option::of(0..120u64);
    (limit(), limit(), limit(), limit(), limit(), limit()).prop_map(
        |(steps, input_tokens, output_tokens, cost, calls, children)| Budget {
            steps,
            input_tokens,
            output_tokens,
            cost,
            calls,
            children,
            ..Budget::default()
        },
    )
}

fn step() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..TASKS, spent()).prop_map(|(task, worst)| Move::Send { task, worst }),
        4 => (0..TASKS, spent()).prop_map(|(task, used)| Move::Answer { task, used }),
        1 => Just(Move::Crash),
    ]
}

impl Tree {
    /// Three levels: a session, two conversations, and two that calls of the first own.
    fn new(budgets: Vec<Budget>) -> Self {
        let parents = vec![None, Some(0), Some(0), Some(1), Some(1)];
        let count = parents.len();
        Self {
            budgets,
            accounts: vec![Account::default(); count],
            parents,
            out: BTreeMap::new(),
            beyond: vec![Spent::default(); count],
            own: vec![Spent::default(); count],
        }
    }

    /// The account of a task, and all above it.
    fn chain(&self, task: TaskId) -> Vec<usize> {
        let own = usize::try_from(task.0).unwrap() % self.parents.len();
        std::iter::successors(Some(own), |at| self.parents[*at]).collect()
    }

    fn room(&self, task: TaskId, worst: &Spent) -> Room {
        let rooms = self.chain(task).into_iter();
        let room = |at: usize| self.budgets[at].room(&self.accounts[at], worst, task);
        rooms.map(room).fold(Room::Enough, Room::and)
    }

    /// Whoever is told to try again does so at once, as often as he is told.
    fn send(&mut self, task: TaskId, worst: Spent) {
        if self.out.contains_key(&task) {
            return;
        }
        match self.room(task, &worst) {
            Room::Enough => {
                self.chain(task).into_iter().for_each(|at| self.accounts[at].reserve(task, worst));
                self.out.insert(task, worst);
            }
            Room::Wait => {
                for at in self.chain(task) {
                    if self.budgets[at].room(&self.accounts[at], &worst, task) == Room::Wait {
                        self.accounts[at].wait(task);
                    }
                }
            }
            Room::Exceeded(_) => {}
        }
    }

    fn settle(&mut self, task: TaskId, used: Option<Spent>) -> Vec<TaskId> {
        let Some(worst) = self.out.remove(&task) else { return Vec::new() };
        let chain = self.chain(task);
        let charged = used.unwrap_or(worst);
        self.own[chain[0]] = self.own[chain[0]].plus(&charged);
        let mut freed = Vec::new();
        for at in chain {
            self.beyond[at] = self.beyond[at].plus(&charged.minus(&worst));
            freed.extend(self.accounts[at].settle(task, used));
        }
        freed
    }

    fn take(&mut self, step: &Move) {
        match step {
            Move::Send { task, worst } => self.send(TaskId(*task as u64), *worst),
            Move::Answer { task, used } => drop(self.settle(TaskId(*task as u64), Some(*used))),
            Move::Crash => {
                let out: Vec<_> = self.out.keys().copied().collect();
                out.into_iter().for_each(|task| drop(self.settle(task, None)));
            }
        }
    }

    /// The accounts at and below one.
    fn below(&self, top: usize) -> impl Iterator<Item = usize> {
        (0..self.parents.len()).filter(move |at| {
            std::iter::successors(Some(*at), |at| self.parents[*at]).any(|above| above == top)
        })
    }

    fn check(&self) {
        for at in 0..self.accounts.len() {
            let Account { spent, .. } = self.accounts[at];
            let all = spent.plus(&self.accounts[at].held());
            let above = all.minus(&self.beyond[at]);
            let fits = |used: u64, max: Option<u64>| max.is_none_or(|max| used <= max);
            let budget = &self.budgets[at];
            assert!(fits(above.steps, budget.steps), "{at}: {all:?} of {budget:?}");
            assert!(fits(above.input_tokens, budget.input_tokens), "{at}: {all:?} of {budget:?}");
            assert!(fits(above.output_tokens, budget.output_tokens), "{at}: {all:?} of {budget:?}");
            assert!(fits(above.cost, budget.cost), "{at}: {all:?} of {budget:?}");
            assert!(fits(above.calls, budget.calls), "{at}: {all:?} of {budget:?}");
            assert!(fits(above.children, budget.children), "{at}: {all:?} of {budget:?}");
            let parts = self.below(at).fold(Spent::default(), |sum, below| sum.plus(&self.own[below]));
            assert_eq!(spent, parts, "an account is the sum of what hangs below it");
        }
    }
}

proptest! {
    #[test]
    fn no_order_of_requests_answers_and_crashes_spends_more_than_the_budget(
        budgets in vec(budget(), 5),
        steps in vec(step(), 0..60),
    ) {
        let mut tree = Tree::new(budgets);
        for step in &steps {
            tree.take(step);
            tree.check();
        }
    }

    #[test]
    fn nobody_waits_for_ever_when_all_that_is_reserved_is_settled(
        budgets in vec(budget(), 5),
        steps in vec(step(), 0..60),
        used in vec(proptest::option::of(spent()), TASKS),
    ) {
        let mut tree = Tree::new(budgets);
        let mut wanted = BTreeMap::new();
        for step in &steps {
            if let Move::Send { task, worst } = step {
                let task = TaskId(*task as u64);
                tree.send(task, *worst);
                if tree.accounts.iter().any(|account| account.waiting.contains(&task)) {
                    wanted.insert(task, *worst);
                }
            }
        }
        // Each settlement wakes; who is woken tries again. As long as somebody waits, somebody holds.
        while let Some(task) = tree.out.keys().next().copied() {
            let used = used[usize::try_from(task.0).unwrap()];
            for woken in tree.settle(task, used) {
                tree.send(woken, wanted[&woken]);
            }
            tree.check();
        }
        prop_assert!(tree.accounts.iter().all(|account| account.waiting.is_empty()), "{:?}", tree.accounts);
    }
}
