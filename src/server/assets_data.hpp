// The files of the dashboard, which the build puts into the program. Without npm there are none.
#pragma once

#include <span>
#include <string_view>

namespace dovetail::server {

struct Asset {
  std::string_view name{};  ///< It contains a hash of the content.
  std::string_view content_type{};
  std::string_view gzip{};
};

[[nodiscard]] std::span<const Asset> embedded_assets();

/// The HTML page. `{{base}}` stands for the base path. Empty: the dashboard was left out.
[[nodiscard]] std::string_view embedded_page();

}  // namespace dovetail::server
