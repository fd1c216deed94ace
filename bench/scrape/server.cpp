// Serves the page of probes with much data, with the exporter's own pipeline, writer and server,
// and prints the cost.
#include <fmt/format.h>
#include <malloc.h>

#include <prometheus/text_serializer.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "bench/scrape/allocations.h"
#include "bench/scrape/load.h"
#include "bench/scrape/serve.h"
#include "exporter/base/gzip.h"
#include "exporter/http/server.h"
#include "exporter/metrics/page.h"
#include "exporter/probes/frame/pipeline.h"

using namespace gpusnoop;

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_since(Clock::time_point start) {
    return std::chrono::nanoseconds(Clock::now() - start).count();
}

// The longest time from one round of the aggregating thread to the next: in that time no thread
// empties the rings.
class Pauses {
public:
    void round() {
        const auto now = Clock::now();
        const std::int64_t pause = (now - last_).count();
        last_ = now;
        for (std::int64_t longest = longest_; pause > longest;) {
            if (longest_.compare_exchange_weak(longest, pause)) {
                break;
            }
        }
    }
    std::int64_t take() { return longest_.exchange(0); }

private:
    Clock::time_point last_ = Clock::now();
    std::atomic<std::int64_t> longest_ = 0;
};

class Page {
public:
    explicit Page(std::size_t series)
        : load_(series),
          // As in the default configuration.
          pipeline_(load_.probes(), std::chrono::milliseconds(10), [this] { pauses_.round(); }) {}

    http::Response answer(const http::Request &request) {
        const auto format = metrics::negotiate(request.accept);
        http::Response response;
        if (const auto snapshot = pipeline_.snapshot()) {
            response.content_type = metrics::content_type(format);
            response.body = std::make_shared<const std::string>(metrics::write_page(
                format, snapshot->families, bench::own_families(*snapshot, load_.probes())));
        } else {
            response = http::text_response(503, snapshot.error().message + "\n");
        }
        return response;
    }

    std::string command(const std::string &word) {
        if (word == "sample") {
            const bench::Allocations now = bench::allocations();
            const auto text = fmt::format("{} {} {}", now.count - last_.count,
                                          now.bytes - last_.bytes, pauses_.take());
            last_ = bench::allocations();
            return text;
        }
        if (word == "parts") {
            return parts();
        }
        if (word == "write") {
            return write();
        }
        return "unknown";
    }

private:
    // Nanoseconds for the snapshot, which includes the wakeup of the aggregating thread; for the
    // exporter's own families; for the text; for its compression.
    std::string parts() {
        const auto start = Clock::now();
        const auto snapshot = pipeline_.snapshot();
        const auto taken = nanoseconds_since(start);
        if (!snapshot) {
            return "unknown";
        }
        const auto own = bench::own_families(*snapshot, load_.probes());
        const auto converted = nanoseconds_since(start);
        const auto text = metrics::write_page(metrics::Format::text, snapshot->families, own);
        const auto written = nanoseconds_since(start);
        const auto packed = gpusnoop::gzip(text);
        const auto compressed = nanoseconds_since(start);
        return fmt::format("{} {} {} {} {}", taken, converted - taken, written - converted,
                           compressed - written, packed ? bench::samples_in(text) : 0);
    }

    // Nanoseconds and allocations of our text and of prometheus-cpp's, in turns.
    std::string write() {
        if (families_.empty()) {
            if (auto snapshot = pipeline_.snapshot()) {
                families_ = bench::families_of(*snapshot, load_.probes());
                own_ = bench::own_families(*snapshot, load_.probes());
                snapshots_ = std::move(snapshot->families);
            }
        }
        std::string line;
        const auto measure = [&](const auto &make) {
            const auto before = bench::allocations();
            const auto start = Clock::now();
            const std::string text = make();
            const auto took = nanoseconds_since(start);
            const auto after = bench::allocations();
            line += fmt::format("{} {} {} ", took, after.count - before.count, text.size());
        };
        measure([&] { return metrics::write_page(metrics::Format::text, snapshots_, own_); });
        measure([&] {
            const prometheus::TextSerializer serializer;
            return static_cast<const prometheus::Serializer &>(serializer).Serialize(families_);
        });
        return line;
    }

    bench::Load load_;
    Pauses pauses_;
    probes::Pipeline pipeline_;
    bench::Allocations last_;
    // The same page for both: ours from snapshots, theirs from its data model.
    std::vector<series::FamilySnapshot> snapshots_;
    std::vector<prometheus::MetricFamily> own_;
    std::vector<prometheus::MetricFamily> families_;
};

}  // namespace

int main(int argc, char **argv) {
    ::mallopt(M_MMAP_THRESHOLD, 256 << 10);  // as the exporter does
    Page page(bench::series_of(argc, argv));
    auto server = http::Server::listen(
        "127.0.0.1:0",
        {{"/metrics", [&](const http::Request &request) { return page.answer(request); }}});
    if (!server) {
        std::fprintf(stderr, "%s\n", server.error().message.c_str());
        return 1;
    }
    bench::serve((*server)->port(), [&](const std::string &word) { return page.command(word); });
    return 0;
}
