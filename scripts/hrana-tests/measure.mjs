// Requests a second of pipelines with one statement, beside those of `/sql`: the same statements, connections and server.
import http from 'node:http';

const { SERVER, URL: base } = process.env;
const SECONDS = 3;
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const ask = (url, body) => new Promise((resolve, reject) => {
  const request = http.request(url, { method: 'POST', agent }, (response) => {
    const pieces = [];
    response.on('data', (piece) => pieces.push(piece));
    response.on('end', () => {
      const text = Buffer.concat(pieces).toString();
      if (response.statusCode !== 200 || text.includes('"error"')) reject(new Error(text)); else resolve(text);
    });
  });
  request.on('error', reject);
  request.end(body);
});
const pipeline = (sql, args) => ask(`${base}v2/pipeline`, JSON.stringify({ requests: [
  { type: 'execute', stmt: { sql, args: args.map((value) => ({ type: 'integer', value: String(value) })) } }, { type: 'close' },
] }));
const plain = (sql, params) => ask(`${SERVER}/v1/databases/default/sql`, JSON.stringify({ sql, params }));

await pipeline('CREATE TABLE m(id INTEGER PRIMARY KEY, v INT)', []);
await pipeline('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO m SELECT i, i FROM n', []);
const statements = [
  ['SELECT by key', 'SELECT v FROM m WHERE id = ?', () => [1 + Math.floor(Math.random() * 100000)]],
  ['durable INSERT', 'INSERT INTO m(v) VALUES (?)', () => [7]],
];
for (const [name, sql, args] of statements) {
  for (const clients of [1, 8]) {
    const rates = [];
    for (const run of [pipeline, plain, pipeline, plain]) {
      let done = 0;
      const end = Date.now() + SECONDS * 1000;
      await Promise.all(Array.from({ length: clients }, async () => {
        while (Date.now() < end) {
          await run(sql, args());
          done += 1;
        }
      }));
      rates.push(Math.round(done / SECONDS));
    }
    console.log(`${name}, ${clients} clients: hrana ${rates[0]} and ${rates[2]}/s, /sql ${rates[1]} and ${rates[3]}/s`);
  }
}
agent.destroy();
