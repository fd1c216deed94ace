#include "exporter/status/assets.h"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <functional>
#include <utility>

#include "exporter/status/parts.h"

namespace gpusnoop::status {

// The style, besides what the lists (parts.h) make of it.
//
// Up to this width, in the text's size, rows are cards.
inline constexpr int narrow_rem = 48;

inline constexpr std::string_view style =
    R"(:root{color-scheme:light dark;--bg:#fbfbfa;--fg:#1f2328;--dim:#57606a;--line:#d4d8dc;
--head:#f0f1f2;--link:#0b57d0;--ok:#116329;--bad:#a40e26;--note:#7a4b00}
@media(prefers-color-scheme:dark){:root{--bg:#15181b;--fg:#e6e8ea;--dim:#a3acb5;--line:#363d44;
--head:#1f2429;--link:#8ab4f8;--ok:#6fcf85;--bad:#ff8a80;--note:#f0b95c}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:96rem;padding:1rem;
color:var(--fg);background:var(--bg)}
h1{font-size:1.4rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:1.7rem 0 .4rem}
p{margin:.3rem 0}
a{color:var(--link)}
small,.dim{color:var(--dim)}
small{font-size:13px}
ul,ol{margin:0;padding:0;list-style:none}
footer{border-top:1px solid var(--line);margin-top:2rem}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:.8rem 0}
nav a{display:inline-block;padding:.25rem 0}
.notes{margin:.8rem 0}
.notes li{border-left:4px solid;padding:.3rem .8rem;margin:.4rem 0;background:var(--head);
overflow-wrap:anywhere}
.notes .bad{border-color:var(--bad)}
.notes .note{border-color:var(--note)}
b.ok,#live.ok{color:var(--ok)}
b.bad,#live.bad{color:var(--bad)}
b.note{color:var(--note)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.8rem 0}
dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px;margin:.4rem 0}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid var(--line);
unicode-bidi:isolate;overflow-wrap:break-word}
thead th{background:var(--head);font-weight:600;white-space:nowrap}
tbody th{font-weight:600}
.processes th:first-child{min-width:19rem}
tbody tr:last-child>*{border-bottom:0}
td p,th p{margin:0;color:var(--dim);font-size:13px;font-weight:400}
td small,th small,td b,time{white-space:nowrap}
small{font-weight:400}
code,ol{font-family:ui-monospace,monospace;font-size:13px;font-weight:400}
code,td p,th p{overflow-wrap:anywhere}
td details,td code,th code{max-width:26rem}
td code,tbody th>code{display:inline-block;overflow-wrap:break-word}
summary{cursor:pointer}
td summary{white-space:nowrap}
svg{width:124px;height:18px;vertical-align:middle}
path{fill:none;stroke:var(--link);stroke-width:1.5}
)";

// On narrow screens. What is empty has no line.
inline constexpr std::string_view style_of_cards =
    R"(body{padding:.6rem}
thead{display:none}
.processes th:first-child{min-width:0}
table,tbody,tbody tr,tbody th,td{display:block}
tbody tr{border-bottom:2px solid var(--line);padding:.4rem .6rem}
tbody tr:last-child{border-bottom:0}
tbody tr>*{border:0;padding:.1rem 0}
tbody tr>td{padding-left:7.5rem;position:relative;overflow-wrap:anywhere}
td::before{position:absolute;left:0;width:7.2rem;color:var(--dim)}
td:empty{display:none}
.gpus tbody th::before{content:"GPU "}
td code,tbody th>code{overflow-wrap:anywhere}
td small,th small,td b{white-space:normal}
td b.note{white-space:nowrap}
dl{grid-template-columns:1fr}
dt{margin-top:.3rem}
)";

// The script.

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

namespace {

// Numbers are at the right on wide screens. On narrow ones each row is a card, with the title of a
// cell before it.
std::string style_of_lists() {
    std::string wide;
    std::string narrow;
    for (const ListKind *list : all_lists) {
        for (std::size_t i = 0; i < list->columns.size(); i++) {
            const Column &column = list->columns[i];
            if (column.is_number) {
                wide += fmt::format(".{} :nth-child({}):is(td,th),", list->id, i + 1);
            }
            if (i > 0 && !column.title.empty()) {
                narrow += fmt::format(".{} td:nth-child({})::before{{content:\"{}\"}}\n", list->id,
                                      i + 1, column.title);
            }
        }
    }
    wide.pop_back();
    return fmt::format(
        "@media(min-width:{0}.01rem){{{1}{{text-align:right;white-space:nowrap;\n"
        "font-variant-numeric:tabular-nums}}}}\n@media(max-width:{0}rem){{{2}{3}}}\n",
        narrow_rem, wide, style_of_cards, narrow);
}

Asset asset(std::string_view path, std::string_view content_type, std::string text) {
    std::string version = fmt::format("{:x}", std::hash<std::string>{}(text));
    return {path, content_type, std::move(text), std::move(version)};
}

}  // namespace

const Asset &stylesheet() {
    static const Asset one =
        asset("/status.css", "text/css; charset=utf-8", std::string(style) + style_of_lists());
    return one;
}

const Asset &script() {
    static const Asset one =
        asset("/status.js", "text/javascript; charset=utf-8", std::string(script_text));
    return one;
}

std::string address_of(const Asset &asset) {
    return fmt::format(".{}?v={}", asset.path, asset.version);
}

}  // namespace gpusnoop::status
