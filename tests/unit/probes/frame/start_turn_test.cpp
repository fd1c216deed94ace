// The order in which probes are started.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

class StartedProbe final : public probes::Probe {
public:
    StartedProbe(probes::StartTurn turn, std::function<Result<>()> start)
        : turn_(turn), start_(std::move(start)) {}

    Result<> start() override { return start_(); }
    [[nodiscard]] probes::StartTurn start_turn() const override { return turn_; }
    void drain() override {}
    std::vector<series::FamilySnapshot> report() override { return {}; }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override { return {}; }
    [[nodiscard]] probes::Health health() const override { return {}; }

private:
    probes::StartTurn turn_;
    std::function<Result<>()> start_;
};

}  // namespace

TEST_CASE("a probe that reads the others starts when all of them have started") {
    std::promise<void> in_order;
    bool is_beside_started = false;
    bool did_last_see_it = false;
    std::vector<std::unique_ptr<probes::Probe>> all;
    const auto add = [&](probes::StartTurn turn, std::function<Result<>()> start) {
        all.push_back(std::make_unique<StartedProbe>(turn, std::move(start)));
    };
    add(probes::StartTurn::last, [&]() -> Result<> {
        did_last_see_it = is_beside_started;
        return fail("last");
    });
    // It ends after the one that is started in order, which so must run at the same time.
    add(probes::StartTurn::beside, [&]() -> Result<> {
        const bool is_in_time = in_order.get_future().wait_for(30s) == std::future_status::ready;
        is_beside_started = true;
        return is_in_time ? Result<>{} : fail("alone");
    });
    add(probes::StartTurn::in_order, [&]() -> Result<> {
        in_order.set_value();
        return fail("in order");
    });

    const auto results = probes::start_probes(all);

    REQUIRE(results.size() == 3);
    CHECK(did_last_see_it);
    CHECK(results[0].error().message == "last");
    CHECK(results[1].has_value());
    CHECK(results[2].error().message == "in order");
}

TEST_CASE("what the start of a probe throws arrives, whatever its turn") {
    const auto turn =
        GENERATE(probes::StartTurn::in_order, probes::StartTurn::beside, probes::StartTurn::last);
    std::vector<std::unique_ptr<probes::Probe>> all;
    all.push_back(std::make_unique<StartedProbe>(
        turn, []() -> Result<> { throw std::system_error(EAGAIN, std::generic_category()); }));
    CHECK_THROWS_AS((void)probes::start_probes(all), std::system_error);
}
