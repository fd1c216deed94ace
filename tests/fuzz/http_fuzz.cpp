// libFuzzer target: any bytes as the parts of a request that we read ourselves (its query, its
// headers Accept, Accept-Encoding and Authorization), and as an address to listen on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "exporter/base/text/text.h"
#include "exporter/http/basic_auth.h"
#include "exporter/http/request_parts.h"
#include "exporter/metrics/text.h"
#include "exporter/system/listen_address.h"

using namespace gpusnoop;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    if (const auto query = http::parse_query(text); !query && query.error().message.empty()) {
        std::abort();
    }
    (void)http::accepts_gzip(text);
    const auto format = metrics::negotiate(text);
    if (format != metrics::Format::text && format != metrics::Format::openmetrics) {
        std::abort();
    }
    // Nobody's password, of the least cost there is: whatever is sent must be refused.
    static http::BasicAuth auth({{"user", "$2b$04$" + std::string(53, '.')}});
    if (auth.recall(text) == http::BasicAuth::Verdict::allowed || auth.check(text)) {
        std::abort();
    }
    const auto address = parse_listen_address(text);
    if (!address && address.error().message.empty()) {
        std::abort();
    }
    const std::string escaped = escape_html(text, text.size());
    if (escaped.find_first_of("<>\"'") != std::string::npos ||
        to_valid_utf8(escaped, escaped.size()) != escaped) {
        std::abort();
    }
    return 0;
}
