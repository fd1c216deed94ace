// Receives what Alertmanager sends: a server that takes POSTs of JSON and answers 200.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/harness/page.h"

namespace e2e {

// One alert of a notification.
struct Notified {
    std::string receiver;  // the path that was posted to, without the slash
    std::string status;    // firing or resolved
    harness::Labels labels;
    std::map<std::string, std::string> annotations;
};

class Webhook {
public:
    Webhook();
    ~Webhook();
    Webhook(const Webhook &) = delete;
    Webhook &operator=(const Webhook &) = delete;

    [[nodiscard]] std::uint16_t port() const;
    // All that came, in this order; those with all these labels and this status.
    [[nodiscard]] std::vector<Notified> notified(const std::string &status,
                                                 const harness::Labels &labels) const;
    // What came, for messages of failed tests.
    [[nodiscard]] std::string text() const;

private:
    void serve(const std::stop_token &stop);
    void answer(const gpusnoop::Fd &connection);
    void take(const std::string &request);

    gpusnoop::Fd listener_;
    mutable std::mutex mutex_;
    std::vector<Notified> notified_;
    std::jthread thread_;  // the last member: it uses the others
};

}  // namespace e2e
