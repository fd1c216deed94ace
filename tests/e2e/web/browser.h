// A real browser, for pages that people look at.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/machine/directory.h"

namespace e2e {

// What became of a page in the browser.
struct Seen {
    std::string dom;                    // once it was loaded
    std::vector<std::string> requests;  // that the page made, besides the one for itself
    std::vector<std::string> console;   // what it said there, errors of the browser about it too
};

// The browser's command, with its profile in this directory. Everything that would have to leave
// this machine is refused.
std::vector<std::string> browser(const harness::TemporaryDirectory &directory);

// `more`: options of the browser.
Seen look_at(const std::string &url, const std::vector<std::string> &more = {});

}  // namespace e2e
