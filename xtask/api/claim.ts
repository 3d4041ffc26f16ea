// Claims a share with openapi-fetch and the types that openapi-typescript made of the document. A mismatch with the
// document does not compile.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const { QIANG_URL: baseUrl, QIANG_TOKEN: token } = process.env;
assert(baseUrl && token);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

const currency = "CNY";
const deposit = await client.POST("/v1/accounts/{user}/deposits", {
  params: { path: { user: "alice" }, header: { "Idempotency-Key": "typescript-deposit" } },
  body: { reference: "typescript", amount: 1_000, currency },
});
assert.equal(deposit.response.status, 201, JSON.stringify(deposit.error));

const packet = await client.POST("/v1/red-packets", {
  body: { title: "TypeScript", total: { amount: 1_000, currency }, shares: 2, split: { rule: "equal" } },
});
assert(packet.data, JSON.stringify(packet.error));
// A later service may answer another phase, so the type is open.
const live: components["schemas"]["Phase"] = "live";
assert.equal(packet.data.state.phase, live);

const params = { path: { id: packet.data.id } };
const share = await client.POST("/v1/red-packets/{id}/claims", { params });
// It could be a place in line, too.
assert(share.data && "amount" in share.data, JSON.stringify(share));
assert.equal(share.response.status, 201);
assert.deepEqual(share.data.amount, { amount: 500, currency });

const again = await client.POST("/v1/red-packets/{id}/claims", { params });
assert.equal(again.response.status, 200);
assert.deepEqual(again.data, share.data);

const claims = await client.GET("/v1/red-packets/{id}/claims", { params });
assert.deepEqual(claims.data?.data.map((claim) => claim.user), ["alice"]);

const unknown = { path: { id: "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80" } };
const refused = await client.POST("/v1/red-packets/{id}/claims", { params: unknown });
const type: components["schemas"]["ProblemType"] = "/problems/unknown-campaign";
assert.equal(refused.error?.type, type);
console.log(`TypeScript: ${share.data.campaign} gave ${share.data.amount.amount}`);
