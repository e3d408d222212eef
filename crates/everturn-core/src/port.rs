//! How a port with async methods is declared: once, with its boxed twin behind a cheap handle.

/// Declares a port: a trait whose methods return `impl Future + Send` (implementers write `async fn`), and a cheap
/// handle over any implementation, with the same methods.
macro_rules! port {
    (
        $(#[$trait_doc:meta])*
        trait $port:ident;
        $(#[$handle_doc:meta])*
        handle $handle:ident, twin $twin:ident;
        $(
            $(#[$doc:meta])*
            async fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $out:ty;
        )*
    ) => {
        $(#[$trait_doc])*
        pub trait $port: Send + Sync + 'static {
            $($(#[$doc])* fn $name(&self $(, $arg: $ty)*) -> impl Future<Output = $out> + Send;)*
        }

        trait $twin: Send + Sync {
            $(fn $name<'a>(&'a self $(, $arg: $ty)*) -> $crate::BoxFuture<'a, $out>;)*
        }

        impl<T: $port> $twin for T {
            $(fn $name<'a>(&'a self $(, $arg: $ty)*) -> $crate::BoxFuture<'a, $out> {
                Box::pin($port::$name(self $(, $arg)*))
            })*
        }

        $(#[$handle_doc])*
        #[derive(Clone)]
        pub struct $handle(std::sync::Arc<dyn $twin>);

        impl $handle {
            /// A handle over `implementation`.
            pub fn new(implementation: impl $port) -> Self {
                Self(std::sync::Arc::new(implementation))
            }

            $($(#[$doc])*
            pub async fn $name(&self $(, $arg: $ty)*) -> $out {
                self.0.$name($($arg),*).await
            })*
        }

        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($handle))
            }
        }
    };
}

pub(crate) use port;
