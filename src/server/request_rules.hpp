// Rules that keep pages of other sites from using the server through a browser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/request.hpp"

namespace dovetail::server {

/// A page of another site can point a name of its own to our address (DNS rebinding). The Host
/// header then has that name. IP addresses and localhost are always allowed: nobody can point them
/// elsewhere.
[[nodiscard]] bool is_allowed_host(std::string_view host, const std::vector<std::string>& allowed);

/// Whether a request that changes data comes from a page of this server, from a caller with a
/// token, or from a program that is no browser.
[[nodiscard]] bool is_same_site(const Headers& headers, Proof proof);

/// Whether the Content-Type is application/json, with or without parameters. Pages of other sites
/// cannot send it without asking first, and the server never agrees.
[[nodiscard]] bool is_json(const Headers& headers);

}  // namespace dovetail::server
