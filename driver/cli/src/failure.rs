//! How commands fail.

use warplift_lab::validate::ValidationError;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// A mistake of the user, or something missing on the machine.
    User(String),
    /// A compiled kernel that is wrong.
    Wrong(String),
}

/// A command's result.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// For people.
    pub fn message(&self) -> String {
        match self {
            Self::User(text) => format!("error: {text}"),
            Self::Wrong(text) => format!("WRONG: {text}"),
        }
    }

    /// Exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::User(_) => 2,
            Self::Wrong(_) => 1,
        }
    }

    /// The same, with words in front.
    pub fn about(self, what: &str) -> Self {
        match self {
            Self::User(text) => Self::User(format!("{what}: {text}")),
            Self::Wrong(text) => Self::Wrong(format!("{what}: {text}")),
        }
    }
}

/// A mistake of the user.
pub fn user(message: impl Into<String>) -> Failure {
    Failure::User(message.into())
}

/// Errors that are the user's or the machine's, by their text.
macro_rules! user_errors {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::User(error.to_string())
            }
        }
    )*};
}
user_errors!(
    warplift_lab::bench::micro::MicroError,
    warplift::problem::ProblemError,
    warplift::toolchain::ToolError,
    warplift::cuda::CudaError,
    warplift::cuda::LaunchError,
    warplift_lab::bench::BenchError,
    serde_json::Error,
);

impl From<ValidationError> for Failure {
    fn from(error: ValidationError) -> Self {
        match error.is_wrong_result() {
            true => Self::Wrong(error.to_string()),
            false => Self::User(error.to_string()),
        }
    }
}
