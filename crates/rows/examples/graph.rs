//! A small property graph: nodes with documents, edges in both directions, and a search along them.
//!
//! * An edge's primary key is (from, label, to): the neighbours of a node are one range. The index `incoming` is the
//!   same the other way round, and is kept by the same transaction.
//! * A node's properties are a JSON document; an index on a path of it finds nodes by a property.

use pando::{Database, ReadTables, Result, Transaction};
use pando_rows::{Row, Table};
use serde_json::json;
use std::collections::{HashMap, VecDeque};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "nodes", index(by_kind = "properties/kind"))]
struct Node {
    #[row(key)]
    id: u64,
    properties: serde_json::Value,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "edges", index(incoming = "target, label, source"))]
struct Edge {
    #[row(key)]
    source: u64,
    #[row(key)]
    label: String,
    #[row(key)]
    target: u64,
    weight: f64,
}

struct Graph {
    nodes: Table<Node>,
    edges: Table<Edge>,
}

impl Graph {
    /// The fewest edges of a label from one node to another.
    fn distance(&self, reader: &impl ReadTables, label: &str, from: u64, to: u64) -> Result<Option<u64>> {
        let (mut seen, mut ahead) = (HashMap::from([(from, 0)]), VecDeque::from([from]));
        while let Some(node) = ahead.pop_front() {
            let distance = seen[&node];
            if node == to {
                return Ok(Some(distance));
            }
            for edge in self.edges.prefix(reader, (node, label))? {
                let target = edge?.target;
                seen.entry(target).or_insert_with(|| {
                    ahead.push_back(target);
                    distance + 1
                });
            }
        }
        Ok(None)
    }

    /// Removes a node with its edges, of both directions.
    fn remove(&self, tx: &mut Transaction, node: u64) -> Result<()> {
        let outgoing = self.edges.prefix(tx, node)?.collect::<Result<Vec<_>>>()?;
        let incoming = self.edges.by_index(tx, "incoming", node)?.collect::<Result<Vec<_>>>()?;
        for edge in outgoing.iter().chain(&incoming) {
            self.edges.delete(tx, edge.key())?;
        }
        self.nodes.delete(tx, node).map(drop)
    }
}

/// Runs the recipe, and asserts what it shows.
pub fn main() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let graph = Graph { nodes: Table::ensure(&db)?, edges: Table::ensure(&db)? };
    db.write(|tx| {
        for id in 0..100u64 {
            let kind = if id % 10 == 0 { "hub" } else { "stop" };
            graph
                .nodes
                .insert(tx, &Node { id, properties: json!({"kind": kind, "name": format!("n{id}")}) })?;
            let next = Edge { source: id, label: "rail".into(), target: (id + 1) % 100, weight: 1.0 };
            graph.edges.insert(tx, &next)?;
            if id % 10 == 0 {
                graph.edges.insert(tx, &Edge { target: (id + 10) % 100, ..next })?;
            }
        }
        Ok(())
    })?;
    let snapshot = db.snapshot()?;
    assert_eq!(graph.nodes.by_index(&snapshot, "by_kind", "hub")?.count(), 10);
    assert_eq!(graph.distance(&snapshot, "rail", 0, 57)?, Some(12));
    assert_eq!(graph.distance(&snapshot, "bus", 0, 57)?, None);
    let into_ten: Vec<u64> = graph
        .edges
        .by_index(&snapshot, "incoming", 10u64)?
        .map(|edge| Ok(edge?.source))
        .collect::<Result<_>>()?;
    assert_eq!(into_ten, [0, 9]);

    db.write(|tx| graph.remove(tx, 50))?;
    let now = db.snapshot()?;
    assert_eq!(graph.distance(&now, "rail", 0, 57)?, None, "every way there led through 50");
    assert!(graph.edges.by_index(&now, "incoming", 50u64)?.next().is_none());
    assert_eq!(pando_rows::check(&now, |_| {})?.problems, []);
    println!("from 0 to 57 in 12 steps, and none without 50");
    Ok(())
}
