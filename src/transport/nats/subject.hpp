// The rules of subjects.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::transport::nats {

/// Why no message can be published with the subject. Absent: one can.
std::optional<std::string> problem_of_subject(std::string_view subject);

}  // namespace dovetail::transport::nats
