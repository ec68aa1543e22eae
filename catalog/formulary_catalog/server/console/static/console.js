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
