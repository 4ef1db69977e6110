// The dashboard: its page and its files. They need no login; the data comes from the API, which
// does.
#pragma once

#include <string>
#include <string_view>

#include "server/route_table.hpp"

namespace dovetail::server {

/// `/assets/{name}`, and the page for all paths that a browser asks for and that are not of the
/// API. `base_path` may be empty.
void add_asset_routes(RouteTable& routes, const std::string& base_path);

/// Whether a client that sends this Accept-Encoding header can read gzip. Without the header it
/// can (RFC 9110).
[[nodiscard]] bool accepts_gzip(const Headers& headers);

/// Whether a client asks for a page: its Accept header names text/html.
[[nodiscard]] bool accepts_html(const Headers& headers);

}  // namespace dovetail::server
