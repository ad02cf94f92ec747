// Checks the description of the HTTP API with Redocly's recommended rules and with swagger-parser: no error, no warning.
import { fileURLToPath } from "node:url";
import { createConfig, lint } from "@redocly/openapi-core";
import SwaggerParser from "@apidevtools/swagger-parser";

const file = fileURLToPath(new URL("../../starter/serve/openapi.json", import.meta.url));
const problems = await lint({ ref: file, config: await createConfig({ extends: ["recommended"] }) });
for (const p of problems) console.error(`${p.severity}: ${p.ruleId} at ${p.location[0]?.pointer}: ${p.message}`);
await SwaggerParser.validate(file);
if (problems.length > 0) process.exit(1);
console.log("ok: the description of the HTTP API");
