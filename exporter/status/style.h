// The style of the page at /, besides what lists.h makes of it. For assets.cpp only.
#pragma once

#include <string_view>

namespace gpusnoop::status {

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

}  // namespace gpusnoop::status
