//! docs/MONITORING.md and dashboards/ against a server: every field is explained, every metric
//! that is used is there.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{Client, Cluster, Reply, Server};

const PAGE: &str = include_str!("../../docs/MONITORING.md");
const SCRIPT: &str = include_str!("../../dashboards/rq.lua");
const ALERTS: &str = include_str!("../../dashboards/rq-alerts.yml");
const BOARD: &str = include_str!("../../dashboards/rq-grafana.json");
/// Sections of INFO that the exporter reads by itself, and its own.
const EXPORTERS_OWN: &str = "redis_";

/// The names in backquotes in the first column of the page's tables under a heading.
fn explained(heading: &str) -> BTreeSet<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let section = rest.split("\n## ").next().expect("a section");
    let first_column = section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    first_column.flat_map(|column| column.split('`').skip(1).step_by(2)).collect()
}

/// Words of a text that may be names of metrics.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("rq_") || word.starts_with(EXPORTERS_OWN)).collect()
}

/// What the exporter's script replies: the values by metric and queue.
fn scraped(client: &Client) -> BTreeMap<(String, String), f64> {
    let reply = client.cmd(&["EVAL", SCRIPT, "0", "0"]);
    let pairs: Vec<&str> = reply.array().iter().map(Reply::text).collect();
    pairs.chunks(2).map(|pair| {
        let (metric, queue) = pair[0].split_once('|').unwrap_or((pair[0], ""));
        ((metric.to_owned(), queue.to_owned()), pair[1].parse().expect("a number"))
    }).collect()
}

#[test]
fn the_page_explains_every_field_and_no_other() {
    let server = Server::start();
    let fields = server.server_info("rq");
    // A line for each queue has a section of its own.
    let told: BTreeSet<&str> = fields.names().into_iter().filter(|name| !name.starts_with("rq_queue0")).collect();
    assert_eq!(explained("This server"), told, "INFO rq in docs/MONITORING.md");
    server.push("q x");
    let fields = server.info("q");
    // The options of a queue are in the README, and they are what CREATE takes.
    let readme = include_str!("../../README.md").to_lowercase();
    let option = |name: &str| readme.contains(&format!("`{name}`")) || readme.contains(&format!("`{name} "));
    let (options, told): (BTreeSet<&str>, BTreeSet<&str>) = fields.names().into_iter().partition(|name| {
        !explained("One queue").contains(name) && option(name)
    });
    assert_eq!(explained("One queue"), told, "RQ.INFO in docs/MONITORING.md");
    assert!(options.len() > 20, "{options:?}");
}

#[test]
fn the_script_of_the_exporter_tells_what_the_page_the_alerts_and_the_dashboard_name() {
    let server = Server::start();
    server.run("RQ.CREATE mail MAXLIVE 2 LEASE 7000");
    server.push("mail x");
    server.push("mail x");
    server.error("RQ.PUSH mail x");
    let job = server.lease_one("mail w");
    server.run(format!("RQ.NACK mail {} {} DEAD", job.id, job.token));
    server.run("RQ.PAUSE other\u{e9} IN");
    let told = scraped(&server);
    let value = |metric: &str, queue: &str| told[&(metric.to_owned(), queue.to_owned())];
    for (metric, queue, expected) in [
        ("rq_queues", "", 2.0),
        ("rq_queue_ready", "mail", 1.0),
        ("rq_queue_leased", "mail", 0.0),
        ("rq_queue_dead", "mail", 1.0),
        ("rq_queue_dead_total", "mail", 1.0),
        ("rq_queue_full_total", "mail", 1.0),
        ("rq_queue_lease_seconds", "mail", 7.0),
        ("rq_queue_paused_in", "mail", 0.0),
        ("rq_queue_paused_in", "other\u{e9}", 1.0),
        ("rq_queue_paused_out", "other\u{e9}", 0.0),
    ] {
        assert_eq!(value(metric, queue), expected, "{metric} of {queue}");
    }
    let names: BTreeSet<&str> = told.keys().map(|(metric, _)| metric.as_str()).collect();
    let ours = |names: BTreeSet<&'static str>| -> BTreeSet<&'static str> { names.into_iter().filter(|name| name.starts_with("rq_")).collect() };
    assert_eq!(ours(explained("Prometheus")), names, "the metrics in docs/MONITORING.md");
    for (file, text) in [("rq-alerts.yml", ALERTS), ("rq-grafana.json", BOARD)] {
        let unknown: Vec<_> = metrics(text).difference(&explained("Prometheus")).copied().collect();
        assert!(unknown.is_empty(), "dashboards/{file} names {unknown:?}, of which docs/MONITORING.md does not know");
    }
    // It is readonly: newer exporters can be told to use this.
    assert!(!server.cmd(&["EVAL_RO", SCRIPT, "0", "0"]).is_error());
}

#[test]
fn a_replica_tells_of_itself_but_not_of_queues() {
    let server = Server::start();
    let replica = server.replica(&[]);
    server.push("mail x");
    replica.wait_in_step(&server);
    let told = scraped(&replica);
    assert!(told.contains_key(&("rq_queues".to_owned(), String::new())));
    assert!(told.keys().all(|(_, queue)| queue.is_empty()), "{told:?}");
}

#[test]
fn in_a_cluster_each_node_tells_of_its_queues() {
    let cluster = Cluster::start(2, 0);
    let mut seen = Vec::new();
    for queue in ["a", "b", "c", "d"] {
        let node = cluster.nodes.iter().find(|node| !node.try_run(format!("RQ.PUSH {queue} x")).is_error());
        assert!(node.is_some(), "no node takes {queue}");
    }
    for node in &cluster.nodes {
        seen.extend(scraped(node).into_keys().filter(|(metric, _)| metric == "rq_queue_ready").map(|(_, queue)| queue));
    }
    seen.sort();
    assert_eq!(seen, ["a", "b", "c", "d"]);
}

#[test]
fn the_monitor_may_run_the_script() {
    let server = Server::start();
    server.push("mail x");
    let page = include_str!("../../docs/ACCESS.md");
    let line = page.lines().find_map(|line| line.split_once("> ACL SETUSER monitor ")).expect("the user").1;
    server.run(format!("ACL SETUSER monitor {line}"));
    let monitor = server.client();
    monitor.run("AUTH monitor secret");
    assert_eq!(scraped(&monitor)[&("rq_queue_ready".to_owned(), "mail".to_owned())], 1.0);
}

#[test]
fn the_dashboard_is_one() {
    let board: serde_json::Value = serde_json::from_str(BOARD).expect("valid JSON");
    let panels = board["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "two panels have the id {}", panel["id"]);
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().expect("x") + place["w"].as_u64().expect("w") <= 24, "{}", panel["title"]);
        if panel["type"] != "row" {
            assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{}", panel["title"]);
        }
    }
    assert!(panels.len() > 15);
}
