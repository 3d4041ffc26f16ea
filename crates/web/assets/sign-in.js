// @ts-check
// Signing in with a token.

import { ask, element, facts, field, say, show } from "./qiang.js";


function signInPage() {
  element("token-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const headers = { Authorization: `Bearer ${field("token").value.trim()}` };
    const answer = await ask("POST", "/v1/session", { headers });
    if (answer?.status === 201) location.assign(facts.then);
    else show(element("status"), answer ? say("token_bad") : say("gave_up"));
  });
}

signInPage();
