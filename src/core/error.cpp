#include "dovetail/error.hpp"

namespace dovetail {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::transient:
      return "transient";
    case ErrorKind::lock_timeout:
      return "lock_timeout";
    case ErrorKind::constraint:
      return "constraint";
    case ErrorKind::serialization:
      return "serialization";
    case ErrorKind::deadlock:
      return "deadlock";
    case ErrorKind::connection_lost:
      return "connection_lost";
    case ErrorKind::commit_in_doubt:
      return "commit_in_doubt";
    case ErrorKind::disk_full:
      return "disk_full";
    case ErrorKind::read_only:
      return "read_only";
    case ErrorKind::permission:
      return "permission";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::schema:
      return "schema";
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::other:
      return "other";
  }
  return "other";
}

Error::Error(Details details, const std::string& message)
    : std::runtime_error(details.statement + ": " + message +
                         (details.native_code.empty() ? "" : " [" + details.native_code + "]")),
      details_(std::move(details)) {}

bool Error::is_transient() const {
  switch (details_.kind) {
    case ErrorKind::transient:
    case ErrorKind::lock_timeout:
    case ErrorKind::serialization:
    case ErrorKind::deadlock:
    case ErrorKind::connection_lost:
      return true;
    default:
      return false;
  }
}

}  // namespace dovetail
