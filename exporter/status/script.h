// The script of the page at /. For assets.cpp only.
#pragma once

#include <string_view>

namespace gpusnoop::status {

inline constexpr std::string_view script_text = R"('use strict';
(() => {
const seconds = 5, main = document.querySelector('main'), state = document.getElementById('live');
const own = document.currentScript.getAttribute('src');
const all = (root, what) => [...root.querySelectorAll(what)];
// What stays when the page is made anew: which parts are open, what is scrolled, who has the focus.
const nameOf = e => e.localName + ' ' + (e.getAttribute('href') || e.parentElement.id ||
    e.getAttribute('aria-labelledby'));
const kept = () => ({
  open: new Map(all(main, 'details[id]').map(e => [e.id, e.open])),
  left: new Map(all(main, '.scroll').map(e => [nameOf(e), e.scrollLeft])),
  focus: main.contains(document.activeElement) ? nameOf(document.activeElement) : ''});
async function renew() {
  const answer = await fetch('./', {cache: 'no-store'});
  if (!answer.ok) throw new Error('HTTP ' + answer.status);
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const fresh = page.querySelector('main'), script = page.querySelector('script');
  if (!fresh || !script) throw new Error('no page');
  // Another exporter, with another script.
  if (script.getAttribute('src') !== own) {
    location.reload();
    return '';
  }
  if (!getSelection().isCollapsed) return 'paused while text is selected';
  const before = kept();
  for (const e of all(fresh, 'details[id]'))
    if (before.open.has(e.id)) e.open = before.open.get(e.id);
  main.replaceChildren(...fresh.childNodes);
  for (const e of all(main, '.scroll')) e.scrollLeft = before.left.get(nameOf(e)) || 0;
  if (before.focus)
    all(main, 'summary, a, .scroll').find(e => nameOf(e) === before.focus)
        ?.focus({preventScroll: true});
  document.getElementById('as-of').replaceChildren(...page.getElementById('as-of').childNodes);
  return live;
}
const live = 'live, every ' + seconds + ' seconds';
async function round() {
  if (!document.hidden) {
    try {
      state.textContent = await renew();
      state.className = 'ok';
    } catch (error) {
      state.textContent = 'no answer since then (' + error.message + ')';
      state.className = 'bad';
    }
  }
  setTimeout(round, 1000 * seconds);
}
state.textContent = live;
setTimeout(round, 1000 * seconds);
})();
)";

}  // namespace gpusnoop::status
