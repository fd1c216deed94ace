#include "exporter/cli/why/why.h"

#include <cstdio>
#include <memory>
#include <thread>

#include "exporter/base/glob.h"
#include "exporter/base/text/text.h"
#include "exporter/cli/top/client/ask.h"
#include "exporter/cli/top/client/client.h"
#include "exporter/cli/top/hanging.h"
#include "exporter/cli/why/oom.h"
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
    if (const auto usable = top::check(*answer, path, options.address.text()); !usable) {
        constexpr int unavailable = 503;
        return answer->status != unavailable
                   ? tl::unexpected(usable.error())
                   : fail(usable.error().message +
                          " Set host.time.enabled: true (host: {time: {enabled: true}}) in its "
                          "configuration, and restart it");
    }
    auto times = parse_times(answer->body);
    return times ? std::move(times) : fail_in(options.address.text(), times.error());
}

Result<> nothing_matches(const Options &options) {
    const std::string asked =
        options.pid ? "--pid=" + std::to_string(*options.pid) : "--comm=" + options.comm;
    return fail("nothing matches " + printable(asked) + ": no process that launches GPU work has " +
                (options.pid ? "this id" : "such a name or script"));
}

Result<> write_out(const std::string &text) {
    std::fputs(text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? Result<>() : fail_errno("write the report");
}

// The document, as it is or in sentences. That nothing ran out of memory is an answer, too.
Result<> explain_oom(top::Client &client, const Options &options) {
    const std::string target =
        std::string(oom_path) + (options.pid ? "?pid=" + std::to_string(*options.pid) : "");
    const auto answer = top::ask(client, target, options.address);
    if (!answer) {
        return tl::unexpected(answer.error());
    }
    if (const auto usable = top::check(*answer, oom_path, options.address.text()); !usable) {
        return usable;
    }
    if (options.json) {
        return write_out(answer->body);
    }
    const auto report = oom_text(answer->body, [&](const processes::ProcessNames &names) {
        return matches_glob(options.comm, names.comm) || matches_glob(options.comm, names.script);
    });
    if (!report) {
        return fail_in(options.address.text(), report.error());
    }
    const bool is_of_all = !options.pid && options.comm == "*";
    return write_out(report->has_any ? report->text
                     : is_of_all
                         ? "No program has run out of GPU memory since the exporter started.\n"
                         : "No matching program has run out of GPU memory since the exporter "
                           "started.\n");
}

// Not everybody may read that page, and nothing else depends on it.
void ask_where_calls_hang(top::Client &client, const Options &options, Report &report) {
    constexpr int ok = 200;
    if (!has_hangs(report)) {
        return;
    }
    const auto answer = top::ask(client, top::hanging_target, options.address);
    if (answer && answer->status == ok) {
        add_sites(report, answer->body);
    }
}

}  // namespace

Result<> run(const Options &options) {
    const auto client = top::Client::make(options.address, options.access);
    if (!client) {
        return tl::unexpected(client.error());
    }
    if (options.oom) {
        return explain_oom(**client, options);
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
    auto report = report_of(*before, *now, options.comm);
    if (!report) {
        return fail_in(options.address.text(), report.error());
    }
    report->is_of_all = report->is_of_all && !options.pid;
    ask_where_calls_hang(**client, options, *report);
    const bool matches = report->is_of_all || !report->findings.empty();
    if (options.json || matches) {
        std::fputs((options.json ? report_json(*report) : report_text(*report)).c_str(), stdout);
    }
    if (std::fflush(stdout) != 0) {
        return fail_errno("write the report");
    }
    return matches ? Result<>() : nothing_matches(options);
}

}  // namespace gpusnoop::why
