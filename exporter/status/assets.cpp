#include "exporter/status/assets.h"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <functional>
#include <utility>

#include "exporter/status/lists.h"
#include "exporter/status/script.h"
#include "exporter/status/style.h"

namespace gpusnoop::status {

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
