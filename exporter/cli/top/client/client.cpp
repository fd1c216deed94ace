#include "exporter/cli/top/client/client.h"

#include <utility>

#include "exporter/cli/top/client/curl_client.h"
#include "exporter/cli/top/client/libcurl.h"
#include "exporter/cli/top/client/plain_client.h"

namespace gpusnoop::top {

Result<std::unique_ptr<Client>> Client::make(Address address, const Access &access) {
    if (const auto curl = Libcurl::load()) {
        return CurlClient::make(*curl, std::move(address), access);
    } else if (!PlainClient::suits(address, access)) {
        return tl::unexpected(curl.error());
    }
    return PlainClient::make(std::move(address));
}

}  // namespace gpusnoop::top
