// What the page at / loads: its stylesheet and its script, as files that browsers keep, so that the
// page itself stays small, and may forbid everything else.
#pragma once

#include <string>
#include <string_view>

namespace gpusnoop::status {

struct Asset {
    std::string_view path;
    std::string_view content_type;
    std::string text;
    std::string version;  // of the text: another text has another one
};

// For light and dark, for wide and narrow screens. Every state is also written in words.
[[nodiscard]] const Asset &stylesheet();
// It asks for the page again every few seconds and takes over what is in it.
[[nodiscard]] const Asset &script();

// For the page: an exporter with another text has another address, so that no browser shows the
// page with an old one.
[[nodiscard]] std::string address_of(const Asset &asset);

}  // namespace gpusnoop::status
