// Asking the user for the token.

import { keepToken } from "./api.js";
import { byId } from "./dom.js";

let waiting = null;

/** Ask for the token; several questions at a time get the same answer. */
export function askToken(wasWrong) {
  waiting ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    if (wasWrong) byId("token-words").textContent = "This token was not accepted. Please check it and try again.";
    const submitted = (event) => {
      event.preventDefault();
      keepToken(byId("token").value);
      byId("token").value = "";
      byId("token-form").removeEventListener("submit", submitted);
      dialog.close();
      waiting = null;
      resolve();
    };
    byId("token-form").addEventListener("submit", submitted);
    // There is nothing to see without it.
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return waiting;
}
