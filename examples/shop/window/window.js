// Shows how much of each product is left, while it is on the screen.

const EVERY_MS = 5000;
const seen = new Set();

const watcher = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    if (isIntersecting) {
      seen.add(target);
      show(target);
    } else {
      seen.delete(target);
    }
  }
});

async function show(product) {
  const answer = await fetch(`/v1/campaigns/${product.dataset.sale}/state`);
  if (answer.ok) {
    const { remaining, phase } = await answer.json();
    const isOver = phase === "ended" || phase === "closed" || remaining === 0;
    product.querySelector("output").textContent = isOver ? "Sold out" : `${remaining} left`;
  }
}

document.querySelectorAll("[data-sale]").forEach((product) => watcher.observe(product));
setInterval(() => seen.forEach(show), EVERY_MS);
