// What NCCL's arguments say, on the page against what the program asked for.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// Of the lines "truth FUNCTION DATATYPE OP RANK NRANKS OPERATIONS BYTES".
struct Truth {
    std::map<Labels, std::pair<double, double>> done;
    double operations = 0;
    double bytes = 0;

    explicit Truth(const std::string &output) {
        std::istringstream lines(output);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string word;
            std::string function;
            std::string datatype;
            std::string op;
            std::string rank;
            std::string nranks;
            double count = 0;
            double size = 0;
            if (words >> word >> function >> datatype >> op >> rank >> nranks >> count >> size &&
                word == "truth") {
                done[{{"function", function},
                      {"datatype", datatype},
                      {"op", op == "-" ? "" : op},
                      {"rank", rank},
                      {"nranks", nranks}}] = {count, size};
                operations += count;
                bytes += size;
            }
        }
    }
};

// The library is the stand-in of NCCL, also under another name.
void check_ranks(const std::string &mode, const std::filesystem::path &library) {
    const Exporter exporter(
        "cuda: {enabled: false}\nseries: {budget: 10000}\nfunctions: {attach: " + mode + "}\n");
    const TemporaryDirectory directory;
    const Process ranks({"env", "LD_PRELOAD=" + library.string(), standin("ranks"), "--ranks", "5",
                         "--rounds", "200", "--wait-for-file", directory / "go"});
    exporter.wait_until_attached_to(library);
    write_file(directory / "go", "");
    ranks.wait_for_output("holding");
    const Truth truth(ranks.output());
    REQUIRE(truth.done.size() > 100);

    const Labels of = {{"comm", "ranks"}, {"library", library.filename()}};
    const Page page = exporter.wait_for("gpusnoop_nccl_operations_total", of, truth.operations);
    CHECK(page.sum("gpusnoop_nccl_bytes_total", of) == truth.bytes);
    for (const auto &[labels, done] : truth.done) {
        INFO(labels.at("function") << " " << labels.at("datatype") << " " << labels.at("op")
                                   << " rank " << labels.at("rank"));
        CHECK(page.sum("gpusnoop_nccl_operations_total", labels) == done.first);
        CHECK(page.sum("gpusnoop_nccl_bytes_total", labels) == done.second);
    }
    CHECK(page.sum("gpusnoop_function_errors_total",
                   {{"comm", "ranks"}, {"error", "ncclInvalidArgument"}}) == 5 * 200 * 2);
    CHECK(page.sum("gpusnoop_probe_events_lost_total") == 0);
}

}  // namespace

TEST_CASE("NCCL's operations and bytes are those of their arguments, by rank", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    check_ranks(mode, standin("libnccl.so.2"));
}

TEST_CASE("the operations of RCCL count as those of NCCL", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto library = std::filesystem::path(directory / "librccl.so.1");
    std::filesystem::copy_file(standin("libnccl.so.2"), library);
    check_ranks("auto", library);
}
