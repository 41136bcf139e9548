// Sets dark or light before anything is drawn; this is no module, as a module would run too late.
"use strict";

(() => {
  const KEY = "driftbn.theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing
    }
  }

  function apply() {
    document.documentElement.dataset.theme = chosen() ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new CustomEvent("driftbn:theme"));
  }

  function toggle() {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    const usual = dark.matches ? "dark" : "light";
    try {
      // What the system says anyway is not kept, so that the page follows it again.
      if (next === usual) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, next);
    } catch {
      document.documentElement.dataset.theme = next;
      document.dispatchEvent(new CustomEvent("driftbn:theme"));
      return;
    }
    apply();
  }

  dark.addEventListener("change", apply);
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", toggle);
  });
})();
