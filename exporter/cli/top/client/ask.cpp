#include "exporter/cli/top/client/ask.h"

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds answer_patience{6};  // the client has a limit of its own

}  // namespace

Result<Answer> ask(Client &client, const std::string &target, const Address &address) {
    client.ask(target);
    const auto until = steady_clock::now() + answer_patience;
    while (steady_clock::now() < until) {
        pollfd event{client.fd(), POLLIN, 0};
        constexpr int step_ms = 100;
        (void)::poll(&event, 1, step_ms);
        if (auto answer = client.take()) {
            return *std::move(answer);
        }
    }
    return fail("cannot reach " + address.text() + ": it did not answer in time");
}

Result<> check(const Answer &answer, std::string_view path, const std::string &address) {
    constexpr int ok = 200;
    constexpr int unauthorized = 401;
    constexpr int forbidden = 403;
    constexpr int not_found = 404;
    constexpr std::size_t most = 320;
    switch (answer.status) {
        case ok:
            return {};
        case unauthorized:
            return fail(address + " needs a valid login: --login-file or --netrc");
        case forbidden:
            return fail("run this on the node itself: " + address +
                        " shows what programs do only to clients on its node. To open it to "
                        "others, start it with logins (--web.config.file) or --web.enable-api");
        case not_found:
            return fail(address + " has no " + std::string(path) +
                        ": it is not a gpusnoop_exporter, or an older one");
        default:
            return fail(address + " answered " + std::to_string(answer.status) + ": " +
                        cut(printable(answer.body.substr(0, answer.body.find('\n'))), most));
    }
}

}  // namespace gpusnoop::top
