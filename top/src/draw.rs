//! Draws the app.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Row as TableRow, Table, Widget};

use crate::app::{Action, App};
use crate::model::{Consumer, Dead, Detail, Info, Row};
use crate::server::Failure;
use crate::text::{age, count, or_dash, rate, shown};

/// How wide a picture is that goes to no terminal, and how many lines a table of it may have.
const WIDTH: u16 = 120;
const MOST_LINES: usize = 20;

const KEYS: &str = " up/down choose   enter workers and dead jobs   r redrive   p pause   q quit";

const QUEUE_WIDTHS: [Constraint; 11] = {
    const fn column(width: u16) -> Constraint {
        Constraint::Length(width)
    }
    [
        Constraint::Fill(1), column(5), column(5), column(6), column(5), column(6),
        column(6), column(6), column(6), column(6), column(11),
    ]
};
const QUEUE_NAMES: [&str; 11] =
    ["  QUEUE", "READY", "LATER", "LEASED", "DEAD", "OLDEST", "PUSH/s", "OUT/s", "ACK/s", "FAIL/s", "HELD"];

/// Draws all of it.
pub fn draw(app: &mut App, area: Rect, buf: &mut Buffer) {
    // The list leaves two thirds to the detail.
    let list = if app.detail { (area.height / 3).max(3) } else { area.height.saturating_sub(3) };
    let list = list.min(lines(app.rows().len().saturating_add(1)).max(2));
    let [head, queues, detail, notice, keys] = Layout::vertical([
        Constraint::Length(1), Constraint::Length(list), Constraint::Fill(1), Constraint::Length(1), Constraint::Length(1),
    ])
    .areas(area);
    app.resize(usize::from(list.saturating_sub(1)));
    draw_head(app, head, buf);
    draw_queues(app, queues, buf);
    draw_detail(app, detail, buf);
    draw_notice(app, notice, buf);
    Line::from(KEYS).dim().render(keys, buf);
}

/// All queues, and the detail if it is asked for, as text.
pub fn picture(app: &mut App) -> String {
    let rows = app.rows().len();
    app.resize(rows);
    let detail = detail(app).map_or(0, |detail| {
        let (workers, dead) = (lines_of(&detail.consumers), lines_of(&detail.dead));
        lines(summary(app, detail).len().saturating_add(workers).saturating_add(dead)).saturating_add(2)
    });
    let refused = app.sample.as_ref().is_some_and(|sample| sample.refused.is_some());
    let heights = [1, lines(rows.max(1)).saturating_add(1), detail, u16::from(refused)];
    let area = Rect::new(0, 0, WIDTH, heights.iter().fold(0, |sum, height| u16::saturating_add(sum, *height)));
    let mut buf = Buffer::empty(area);
    let [head, queues, detail, notice] = Layout::vertical(heights.map(Constraint::Length)).areas(area);
    draw_head(app, head, &mut buf);
    draw_queues(app, queues, &mut buf);
    draw_detail(app, detail, &mut buf);
    draw_notice(app, notice, &mut buf);
    text_of(&buf)
}

/// What is in a buffer, without spaces at the ends of lines.
fn text_of(buf: &Buffer) -> String {
    let mut text = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut skip = 0;
        for x in buf.area.left()..buf.area.right() {
            let symbol = buf.cell((x, y)).map_or("", |cell| cell.symbol());
            // A wide character has a second cell, which is empty.
            if skip == 0 {
                line.push_str(symbol);
                skip = Line::from(symbol).width().saturating_sub(1);
            } else {
                skip = skip.saturating_sub(1);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn lines(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

fn lines_of<T>(list: &Result<Vec<T>, String>) -> usize {
    list.as_ref().map_or(1, |list| list.len().clamp(1, MOST_LINES))
}

fn draw_head(app: &App, area: Rect, buf: &mut Buffer) {
    let sum = |of: fn(&Row) -> u64| app.rows().iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)));
    let queues = match app.rows().len() {
        1 => "1 queue".to_owned(),
        n => format!("{n} queues"),
    };
    let (ready, leased, dead) = (sum(|row| row.ready), sum(|row| row.leased), sum(|row| row.dead));
    let told = format!(" rq-top {}   {queues}: {ready} ready, {leased} leased, {dead} dead", app.address);
    let line = match &app.trouble {
        None => Line::from(told).bold(),
        Some(Failure::Lost(text)) => {
            Line::from(format!(" rq-top {}   NOT CONNECTED, trying again: {text}", app.address)).style(Style::new().fg(Color::Red).bold())
        }
        Some(Failure::Refused(text)) => Line::from(format!(" rq-top {}   {text}", app.address)).style(Style::new().fg(Color::Red).bold()),
    };
    line.render(area, buf);
}

fn draw_queues(app: &App, area: Rect, buf: &mut Buffer) {
    if app.rows().is_empty() && app.trouble.is_none() {
        let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        Line::from("  no queues here that this user may see").dim().render(rest, buf);
        table(&[], QUEUE_NAMES, QUEUE_WIDTHS).render(head, buf);
        return;
    }
    let rows: Vec<TableRow<'_>> = app.rows().iter().skip(app.first).take(app.room).map(|row| queue_row(app, row)).collect();
    table(&rows, QUEUE_NAMES, QUEUE_WIDTHS).render(area, buf);
}

fn queue_row<'a>(app: &App, row: &Row) -> TableRow<'a> {
    let (info, rates) = (app.info(&row.name), app.rates(&row.name));
    let chosen = Some(&row.name) == app.chosen.as_ref();
    let mark = if chosen { ">" } else { " " };
    let cells = [
        format!("{mark} {}", shown(&row.name)),
        count(row.ready),
        or_dash(info, |info| count(info.scheduled.saturating_add(info.retrying))),
        count(row.leased),
        count(row.dead),
        or_dash(row.oldest_ready_ms, age),
        or_dash(rates, |rates| rate(rates.pushed)),
        or_dash(rates, |rates| rate(rates.delivered)),
        or_dash(rates, |rates| rate(rates.acked)),
        or_dash(rates, |rates| rate(rates.failed)),
        or_dash(info, |info| info.held.clone()),
    ];
    let line = TableRow::new(right(cells, 1..=9));
    if chosen { line.style(Style::new().reversed()) } else { line }
}

/// Numbers have their last digits in one line.
fn right<'a, const N: usize>(cells: [String; N], numbers: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = Line<'a>> {
    cells.into_iter().enumerate().map(move |(at, text)| {
        if numbers.contains(&at) { Line::from(text).right_aligned() } else { Line::from(text) }
    })
}

fn table<'a, const N: usize>(rows: &[TableRow<'a>], names: [&str; N], widths: [Constraint; N]) -> Table<'a> {
    let head = names.into_iter().zip(&widths).enumerate().map(|(at, (name, _))| {
        let line = Line::from(name.to_owned());
        // As the numbers below it.
        if at > 0 && name != "HELD" && N == QUEUE_NAMES.len() { line.right_aligned() } else { line }
    });
    Table::new(rows.to_vec(), widths).header(TableRow::new(head).style(Style::new().dim()))
}

/// The detail, if it is asked for and of the chosen queue.
fn detail(app: &App) -> Option<&Detail> {
    let detail = app.sample.as_ref()?.detail.as_ref()?;
    (app.detail && Some(&detail.queue) == app.chosen.as_ref()).then_some(detail)
}

fn draw_detail(app: &App, area: Rect, buf: &mut Buffer) {
    let Some(detail) = detail(app) else { return };
    let summary = summary(app, detail);
    let text = lines(summary.len());
    // As many workers as there are, unless that leaves too few lines to the dead jobs.
    let left = area.height.saturating_sub(text);
    let workers = lines(lines_of(&detail.consumers)).saturating_add(1).min((left / 2).max(2));
    let [top, workers, dead] =
        Layout::vertical([Constraint::Length(text), Constraint::Length(workers), Constraint::Fill(1)]).areas(area);
    for (line, row) in summary.into_iter().zip(top.rows()) {
        line.render(row, buf);
    }
    draw_workers(&detail.consumers, workers, buf);
    draw_dead(app, detail, dead, buf);
}

/// Lines about the chosen queue.
fn summary<'a>(app: &App, detail: &Detail) -> Vec<Line<'a>> {
    let title = format!("--- {} ", shown(&detail.queue));
    let mut all = vec![Line::from(format!("{title:-<width$}", width = usize::from(WIDTH))).dim()];
    let row = app.place().and_then(|place| app.rows().get(place));
    let (Some(info), Some(row)) = (app.info(&detail.queue), row) else {
        all.push(Line::from(" there is no such queue now, or this user may not see it"));
        return all;
    };
    let with_age = |n: u64, since: Option<u64>| since.map_or_else(|| n.to_string(), |ms| format!("{n} (oldest {})", age(ms)));
    all.push(Line::from(format!(
        " ready {}   scheduled {}   retrying {}   leased {}   dead {}   done {}",
        with_age(row.ready, row.oldest_ready_ms), info.scheduled, info.retrying,
        with_age(row.leased, info.oldest_lease_ms), with_age(row.dead, info.oldest_dead_ms), info.done,
    )));
    all.push(Line::from(format!(" held: {}   workers that wait now: {}", held(app, info), info.blocked_clients)));
    let times = [("waited", info.wait_ms), ("ran", info.run_ms)];
    let times: Vec<String> = times.into_iter().filter_map(|(what, ms)| {
        let (p50, p99) = ms?;
        Some(format!(" {what}: p50 {}, p99 {}", age(p50), age(p99)))
    }).collect();
    if !times.is_empty() {
        all.push(Line::from(times.join("  ")));
    }
    let reasons: Vec<String> = info.dead_of.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
    if !reasons.is_empty() {
        all.push(Line::from(format!(" dead: {}", reasons.join(", "))));
    }
    all
}

fn held(app: &App, info: &Info) -> String {
    let Some(until) = info.paused_out else { return info.held.clone() };
    let now = app.sample.as_ref().map_or(0, |sample| sample.unix_ms);
    let until = if until == 0 { "until it is resumed".to_owned() } else { format!("for {}", age(until.saturating_sub(now))) };
    let reason = info.paused_reason.as_ref().map_or_else(String::new, |reason| format!(": {}", shown(reason)));
    format!("paused {until}{reason}")
}

fn draw_workers(workers: &Result<Vec<Consumer>, String>, area: Rect, buf: &mut Buffer) {
    let rows: Vec<TableRow<'_>> = match workers {
        Err(text) => vec![TableRow::new([format!("  {text}")])],
        Ok(list) if list.is_empty() => vec![TableRow::new(["  none that a job remembers"])],
        Ok(list) => list.iter().map(worker_row).collect(),
    };
    let widths = [Constraint::Fill(1), Constraint::Length(if workers.is_ok() { 6 } else { 0 }), Constraint::Length(if workers.is_ok() { 12 } else { 0 })];
    table(&rows, ["  WORKER", "LEASES", "OLDEST LEASE"], widths).render(area, buf);
}

fn worker_row<'a>(worker: &Consumer) -> TableRow<'a> {
    TableRow::new([format!("  {}", shown(&worker.name)), count(worker.leased), or_dash(worker.oldest_lease_ms, age)])
}

fn draw_dead(app: &App, detail: &Detail, area: Rect, buf: &mut Buffer) {
    let rows: Vec<TableRow<'_>> = match &detail.dead {
        Err(text) => {
            Line::from(format!("  dead jobs: {text}")).render(area, buf);
            return;
        }
        Ok(list) if list.is_empty() => vec![TableRow::new(["  none"])],
        Ok(list) => list.iter().map(|job| dead_row(app, job)).collect(),
    };
    let widths = [
        Constraint::Length(22), Constraint::Length(7), Constraint::Length(13), Constraint::Length(5),
        Constraint::Max(20), Constraint::Fill(1),
    ];
    let first = if detail.dead_is_behind { "  DEAD (reading on)" } else { "  DEAD, newest first" };
    table(&rows, [first, "SINCE", "REASON", "TRIES", "LAST WORKER", "ERROR"], widths).render(area, buf);
}

fn dead_row<'a>(app: &App, job: &Dead) -> TableRow<'a> {
    let now = app.sample.as_ref().map_or(0, |sample| sample.unix_ms);
    let bytes = |bytes: &Option<Vec<u8>>| or_dash(bytes.as_ref(), |bytes| shown(bytes));
    TableRow::new([
        format!("  {}", shown(&job.id)),
        age(now.saturating_sub(job.dead_at)),
        job.reason.clone(),
        count(job.deliveries),
        bytes(&job.consumer),
        bytes(&job.error),
    ])
}

fn draw_notice(app: &App, area: Rect, buf: &mut Buffer) {
    let refused = app.sample.as_ref().and_then(|sample| sample.refused.clone());
    let question = app.pending.as_ref().map(|action| match action {
        Action::Redrive(queue, 1) => format!("bring the dead job of {} back? r: yes, any other key: no", shown(queue)),
        Action::Redrive(queue, dead) => format!("bring the {dead} dead jobs of {} back? r: yes, any other key: no", shown(queue)),
        Action::Pause(queue) => format!("lease nothing more from {}? p: yes, any other key: no", shown(queue)),
        Action::Resume(queue) => format!("lease from {} again? p: yes, any other key: no", shown(queue)),
        Action::Quit => String::new(),
    });
    let line = match question {
        Some(question) => Line::from(format!(" {question}")).style(Style::new().fg(Color::Yellow).bold()),
        None if !app.notice.is_empty() => Line::from(format!(" {}", app.notice)),
        None => Line::from(refused.map_or_else(String::new, |text| format!(" {text}"))),
    };
    line.render(area, buf);
}

#[cfg(test)]
mod tests;
