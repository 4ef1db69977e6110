// Signs and verifies webhooks with the package standardwebhooks.
//   node standard_webhooks.mjs verify SECRET           {"headers": {…}, "body": "…"} on stdin
//   node standard_webhooks.mjs sign SECRET ID SECONDS  the body on stdin; prints the signature
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";
import {join} from "node:path";

const require = createRequire(join(process.env.DOVETAIL_WEBHOOK_PACKAGES, "package.json"));
const {Webhook} = require("standardwebhooks");
const [action, secret, id, seconds] = process.argv.slice(2);
const input = readFileSync(0, "utf8");

if (action === "verify") {
  const {headers, body} = JSON.parse(input);
  new Webhook(secret).verify(body, headers);  // throws
} else {
  console.log(new Webhook(secret).sign(id, new Date(Number(seconds) * 1000), input));
}
