// --- Figures
const zoom = byId("zoom");

function enlarge(button) {
  const small = button.querySelector("img"), large = zoom.querySelector("img");
  [large.src, large.alt] = [small.src, small.alt];
  zoom.querySelector("p").textContent = button.parentElement.querySelector("figcaption").firstElementChild.textContent;
  zoom.showModal();
}
for (const button of all("button.zoom")) button.addEventListener("click", () => enlarge(button));
zoom.addEventListener("click", event => { if (event.target === zoom) zoom.close(); });
