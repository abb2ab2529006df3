//! Numbers in few bytes.

/// In `N` bytes; None: it does not fit.
pub(super) fn pack<const N: usize>(number: u64) -> Option<[u8; N]> {
    let bytes = number.to_le_bytes();
    let (low, high) = bytes.split_at_checked(N)?;
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    low.try_into().ok()
}

/// What [`pack`] was given.
pub(super) fn unpack<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut number = [0; 8];
    if let Some(low) = number.first_chunk_mut() {
        *low = bytes;
    }
    u64::from_le_bytes(number)
}

/// A number near `base`.
pub(super) fn near<const N: usize>(number: u64, base: u64, bias: u64) -> Option<[u8; N]> {
    pack(number.wrapping_sub(base).wrapping_add(bias))
}

/// What [`near`] was given.
pub(super) fn from_near<const N: usize>(bytes: [u8; N], base: u64, bias: u64) -> u64 {
    unpack(bytes).wrapping_sub(bias).wrapping_add(base)
}
