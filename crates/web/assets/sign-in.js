// @ts-check
// Signing in with a token.

import { ask, element, facts, field, say, show } from "./qiang.js";


function signInPage() {
  // Browsers keep the fragment of the first page through the redirect to this one. It goes back the same way.
  const form = document.querySelector("form[action='/sign-in/as']");
  form?.addEventListener("submit", () => form.setAttribute("action", `/sign-in/as${location.hash}`));
  element("token-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const headers = { Authorization: `Bearer ${field("token").value.trim()}` };
    const answer = await ask("POST", "/v1/session", { headers });
    if (answer?.status === 201) location.assign(facts.then.includes("#") ? facts.then : facts.then + location.hash);
    else show(element("status"), answer ? say("token_bad") : say("gave_up"));
  });
}

signInPage();
