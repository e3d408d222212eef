//! What is printed: a table in Markdown, row by row as it is measured, and notes below it.

/// One line of the table.
pub(crate) struct Row {
    /// The figure's number in the list of figures, and its part.
    pub(crate) figure: &'static str,
    /// What was measured, in words.
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) target: &'static str,
    /// What the machine gives without us.
    pub(crate) raw: String,
    pub(crate) is_reached: bool,
}

/// The table, and what is to be said below it.
pub(crate) struct Table {
    notes: Vec<String>,
    missed: usize,
}

impl Table {
    /// Prints the head.
    pub(crate) fn begin() -> Self {
        println!("| # | figure | measured | target | raw limit, same run | |");
        println!("| --- | --- | --- | --- | --- | --- |");
        Self { notes: Vec::new(), missed: 0 }
    }

    /// Prints a line.
    pub(crate) fn row(&mut self, row: Row) {
        let Row { figure, what, measured, target, raw, is_reached } = row;
        let verdict = if is_reached { "reached" } else { "**missed**" };
        self.missed += usize::from(!is_reached);
        println!("| {figure} | {what} | {measured} | {target} | {raw} | {verdict} |");
    }

    /// Keeps a note for the end.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Prints the notes.
    pub(crate) fn end(self) {
        println!();
        for note in self.notes {
            println!("* {note}");
        }
        println!("* {} missed", self.missed);
    }
}
