// Answers requests for the page at /.
//
// The page is made from facts (facts.h): the health of each probe, what discovery has found
// (discovery/found_libraries.h), and an overview that the pipeline thread copies, with the few
// processes, call sites and slow calls that are shown (probes/frame/overview.h). Every five seconds
// the pipeline thread samples the probes' counts, for the rates (rates.h). The step from facts to
// HTML is a function without side effects (sections.h, parts.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/discovery/discovery.h"
#include "exporter/http/route.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/pipeline.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/status/facts.h"
#include "exporter/status/rates.h"

namespace gpusnoop::status {

// The page at /, which people open first.

// The page as HTML: whole without its script, and without external content. The script renews it
// (assets.h); with `refresh_seconds`, browsers reload it instead. It has at most max_page_bytes
// (parts.h).
[[nodiscard]] std::string page(const Facts &facts,
                               std::optional<std::uint32_t> refresh_seconds = std::nullopt);

// A browser may only show what we send.
inline constexpr std::string_view content_security_policy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";
// Of the page at /: it may also load our stylesheet and run our script, which asks us for the page.
inline constexpr std::string_view page_security_policy =
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// The data of a response; borrowed while it is made.
struct Sources {
    const config::Config &config;
    const std::vector<std::unique_ptr<probes::Probe>> &probes;
    const std::vector<probes::Health> health;  // of these, and of others
    const discovery::Discovery &discovery;
    probes::Pipeline &pipeline;
    metrics::LastReload last_reload;
    bool may_profile = false;  // the client
};

// For any thread.
class StatusPage {
public:
    // The start of the exporter is now.
    StatusPage();

    // Call it often: it samples the probes' counts every few seconds, for the rates, and the
    // processes, for their past. `health` and `processes` are called only then: the first takes a
    // hundred system calls.
    void look_at(const std::function<std::vector<probes::Health>()> &health,
                 const std::function<std::vector<probes::ProcessSample>()> &processes);

    // `?refresh=10` makes a page that browsers reload. Waits only until a few numbers are copied,
    // and a second at most: after that the page reports the timeout, and has its other parts.
    [[nodiscard]] http::Response answer(const http::Request &request, const Sources &sources);

    // What the page loads in browsers: its stylesheet or its script, by the request's path.
    [[nodiscard]] static http::Response asset(const http::Request &request);

private:
    std::chrono::nanoseconds started_;  // CLOCK_MONOTONIC
    Rates rates_;
    Past past_;
};

}  // namespace gpusnoop::status
