#include "exporter/cli/why/why.h"

#include <cstdio>
#include <memory>
#include <thread>

#include "exporter/cli/top/ask.h"
#include "exporter/cli/top/client.h"
#include "exporter/cli/why/report.h"

namespace gpusnoop::why {

namespace {

constexpr std::string_view path = "/api/v1/threads";

Result<Times> ask(top::Client &client, const Options &options) {
    // Processes are enough, without their single threads.
    const std::string target = std::string(path) + "?limit=0" +
                               (options.pid ? "&pid=" + std::to_string(*options.pid) : "");
    const auto answer = top::ask(client, target, options.address);
    if (!answer) {
        return tl::unexpected(answer.error());
    }
    if (const auto usable = top::check(*answer, path, options.address); !usable) {
        constexpr int unavailable = 503;
        return answer->status != unavailable
                   ? tl::unexpected(usable.error())
                   : fail(usable.error().message +
                          " Its configuration needs host.time.enabled: true (host: {time: "
                          "{enabled: true}}), and a restart then");
    }
    auto times = parse_times(answer->body);
    return times ? std::move(times) : fail_in(options.address.text(), times.error());
}

}  // namespace

Result<> run(const Options &options) {
    const auto client = top::Client::make(options.address, options.access);
    if (!client) {
        return tl::unexpected(client.error());
    }
    const auto before = ask(**client, options);
    if (!before) {
        return tl::unexpected(before.error());
    }
    std::this_thread::sleep_for(options.duration);
    const auto now = ask(**client, options);
    if (!now) {
        return tl::unexpected(now.error());
    }
    const auto report = report_of(*before, *now, options.comm);
    if (!report) {
        return fail_in(options.address.text(), report.error());
    }
    std::fputs((options.json ? report_json(*report) : report_text(*report)).c_str(), stdout);
    return std::fflush(stdout) == 0 ? Result<>() : Result<>(fail_errno("write the report"));
}

}  // namespace gpusnoop::why
