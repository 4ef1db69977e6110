// A server without the dashboard.
#include "server/assets_data.hpp"

namespace dovetail::server {

std::span<const Asset> embedded_assets() {
  return {};
}

std::string_view embedded_page() {
  return {};
}

}  // namespace dovetail::server
