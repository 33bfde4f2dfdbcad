// --- Contents: closed at first on narrow screens; a link into something folded or filtered away shows it
const narrow = matchMedia("(max-width: 69.99rem)");
const foldContents = () => { byId("contents").open = !narrow.matches; };
narrow.addEventListener("change", foldContents);
foldContents();

function resetFilterOf(target) {
  const form = all(".filters").find(one => byId(one.dataset.for).contains(target));
  if (form) { form.reset(); filter(form); }
}

// What belongs to a row is folded inside it.
function openWith(target) {
  const details = target.matches("tr") ? target.querySelector("details") : target;
  if (details?.matches("details")) details.open = true;
}

function openAround(target) {
  for (let part = target.parentElement; part; part = part.parentElement) if (part.matches("details")) part.open = true;
}

function showLinked() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden]")) resetFilterOf(target);
  openWith(target);
  openAround(target);
  target.scrollIntoView();
}
addEventListener("hashchange", showLinked);
showLinked();
for (const link of all("#contents li a")) link.addEventListener("click", () => { if (narrow.matches) byId("contents").open = false; });

function markCurrent(part) {
  for (const link of all("#contents [aria-current]")) link.removeAttribute("aria-current");
  const here = [part, part.closest("section")].map(one => `#${one?.id}`);
  for (const link of all("#contents a")) if (here.includes(link.hash)) link.ariaCurrent = "true";
}

const watcher = new IntersectionObserver(entries => {
  for (const entry of entries.filter(one => one.isIntersecting)) markCurrent(entry.target);
}, { rootMargin: "-10% 0px -80% 0px" });
for (const part of all("main > [id], article")) watcher.observe(part);
