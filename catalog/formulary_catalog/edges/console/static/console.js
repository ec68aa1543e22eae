// Says in a form that no answer came: htmx itself leaves the page as it is then.
for (const failure of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(failure, ({ target }) => {
    const answer = target.matches("form") && target.querySelector(".answer");
    if (!answer) return;
    const said = document.createElement("p");
    said.className = "problem";
    said.setAttribute("role", "alert");
    said.textContent = "No answer came, so it is not known whether this was recorded. Load the page again to see.";
    answer.replaceChildren(said);
  });
}

// Adds the visitor's own time to each moment, which the server knows in UTC alone.
const addLocalTimes = (within) => {
  for (const each of within.querySelectorAll("time[datetime]:not([data-local])")) {
    const at = new Date(each.dateTime);
    each.dataset.local = at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    each.title += `, ${each.dataset.local} local time`;
    if (each.classList.contains("exact")) each.textContent += ` (${at.toLocaleTimeString()} local time)`;
  }
};
addLocalTimes(document);
document.addEventListener("htmx:load", ({ target }) => addLocalTimes(target.parentElement || document));
