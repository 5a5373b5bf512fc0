// `/` goes to the search, and code can be copied. Pages work without this file.
"use strict";

document.addEventListener("keydown", (event) => {
  const target = event.target;
  const isTyping = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const field = document.querySelector("input[type=search]");
  if (field) {
    field.focus();
    field.select();
  } else {
    location.assign(document.querySelector("[data-search]").href);
  }
});

async function copy(button, text) {
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = "Select it, and copy it by hand";
  }
  button.textContent = said;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

function addCopyButtons() {
  for (const block of document.querySelectorAll("pre.copy:not([data-ready])")) {
    block.dataset.ready = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain copying";
    button.textContent = "Copy";
    button.setAttribute("aria-live", "polite");
    button.setAttribute("aria-label", "Copy");
    button.addEventListener("click", () => copy(button, block.textContent));
    block.after(button);
  }
}

// The server reads no body beyond its limit, so its answer has no form. The form has two KiB more.
document.addEventListener("change", ({ target }) => {
  const most = Number(target.dataset.mostBytes);
  if (!most) return;
  const isLarge = target.files[0]?.size > most;
  target.setCustomValidity(isLarge ? "This archive is too large. Leave out what agents do not need, or ask the operator for a higher http.max_body_bytes." : "");
  target.reportValidity();
});

addCopyButtons();
document.addEventListener("htmx:load", addCopyButtons);
if (location.hash === "#q") document.querySelector("#q")?.focus();
