// The page at /: what this is, where its endpoints are, and what each probe is doing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::http {

// One probe as the page shows it. Texts may hold anything; the page escapes them.
struct ProbeStatus {
    std::string name;
    bool up = false;
    std::string detail;  // why it is down, or what it does without; may be empty
    std::uint64_t attached_functions = 0;
    std::vector<std::string> libraries;  // paths of what it is attached to; may be empty
};

struct LandingPage {
    std::string version;
    std::string revision;
    std::string telemetry_path = "/metrics";
    std::vector<ProbeStatus> probes;
};

// The page as HTML, with no scripts and nothing from elsewhere.
[[nodiscard]] std::string landing_page(const LandingPage &page);

// `text` for HTML content and quoted attributes: valid UTF-8, no markup, at most `max_bytes` bytes
// before escaping.
[[nodiscard]] std::string escape_html(std::string_view text, std::size_t max_bytes = 4096);

}  // namespace gpusnoop::http
